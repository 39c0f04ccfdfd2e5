#include "app/run/offer.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <utility>

#include "app/cli/interrupt.h"
#include "app/files/pull.h"
#include "app/files/scratch_folder.h"
#include "app/open/machine_memory.h"
#include "app/open/open.h"
#include "app/plan/planned_model.h"
#include "base/files/file.h"
#include "base/text.h"
#include "base/threads.h"
#include "device/cpu/cpu.h"

namespace sluice {
namespace {

constexpr uint64_t kHeaderBytes = 32 << 20;  // of a GGUF file, more than a header of 262,144 words takes

// The first bytes of the model's file, in a file of their own.
Result<std::string> fetch_header(const PullOffer& offer, const FetchOptions& options, const ScratchFolder& scratch) {
  std::vector<std::string> headers = offer.headers;
  headers.push_back(cat("Range: bytes=0-", kHeaderBytes - 1));
  TRY(const std::string text, fetch_text(offer.model_url, headers, kHeaderBytes, options));
  std::string path = join_path(scratch.path(), "header.gguf");
  TRY_STATUS(write_file(path, text));
  return path;
}

// What the model takes of memory with the command's options, on the processor.
Result<uint64_t> memory_of(const PullOffer& offer, const FetchOptions& options, const Arguments& arguments) {
  if (ends_with(offer.first_file, ".safetensors") || ends_with(offer.first_file, ".json"))
    return error(ErrorKind::unsupported, "a directory of safetensors has no header that says it");
  const ScratchFolder scratch;
  if (scratch.path().empty()) return error(ErrorKind::io, "no folder for temporary files");
  TRY(const std::string path, fetch_header(offer, options, scratch));
  ModelFiles files;
  files.name = files.path = path;
  TRY(const PlannedModel planned, open_planned(files, arguments));
  ThreadPool pool(1);
  const std::unique_ptr<Device> cpu = make_cpu_device({.pool = &pool});
  const Budget budget;
  TRY(const MemoryPlan plan, plan_memory(planned.model, planned.files, *cpu, budget, machine_memory_bytes(),
                                         engine_options_of(arguments, planned.model.facts())));
  return plan.recommended();
}

std::string memory_text(const Result<uint64_t>& memory) {
  if (!memory) return cat("its memory is not known (", memory.error().text, ")");
  return cat("it takes ", format_bytes(*memory), " of memory, of ", format_bytes(machine_memory_bytes()), " here");
}

// Of the nearest folder above that exists.
std::string free_text(std::string folder) {
  struct statvfs facts = {};
  while (::statvfs(folder.c_str(), &facts) != 0 && folder.find('/') != std::string::npos && folder.size() > 1)
    folder.resize(std::max<size_t>(folder.rfind('/'), 1));
  return format_bytes(static_cast<uint64_t>(facts.f_bavail) * facts.f_frsize);
}

bool is_yes(const std::string& answer) { return answer == "y" || answer == "Y" || answer == "yes" || answer == "Yes"; }

}  // namespace

Result<bool> offer_model(const std::string& name, const Arguments& arguments, Console& console) {
  TRY(const PullRequest request, pull_request(name, ""));
  console.remark(cat(printable(name, 200), " is not on this machine; asking for it online"));
  TRY(const PullOffer offer, look_up(request, console));
  const Result<uint64_t> memory = memory_of(offer, request.options, arguments);
  console.err(cat(printable(name, 200), ": ", offer.from, " has it, ", format_bytes(offer.bytes), ", for ",
                  offer.folder, " (", free_text(offer.folder), " free); ", memory_text(memory), ".\nFetch it? [y/N] "));
  TRY(const std::string answer, console.read_line());
  if (!is_yes(answer)) return false;
  watch_interrupts();
  TRY_STATUS(pull(request, console));
  return true;
}

}  // namespace sluice
