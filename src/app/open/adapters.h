// The adapters that a command line names.
#pragma once

#include <string>
#include <vector>

#include "app/cli/args.h"
#include "base/result.h"
#include "checkpoint/model_files.h"
#include "engine/options.h"
#include "model/model.h"

namespace sluice {

OptionSpec adapter_option();                     // --adapter
std::vector<OptionSpec> adapter_room_options();  // --adapter-slots, --adapter-rank
AdapterRoom adapter_room(const Arguments& arguments);

// "lora", "lora:0.5", "C:\lora:-1". What follows the last colon is the scale if it is a number and no such path exists.
struct NamedAdapter {
  std::string path;
  float scale = 1;
};
Result<NamedAdapter> parse_adapter(const std::string& text);

// The adapters that the model's store adds, then the others.
Result<AdapterSum> open_adapters(const Model& model, const ModelFiles& files, const std::vector<NamedAdapter>& others);
// The same with those of --adapter.
Result<AdapterSum> open_adapters(const Model& model, const ModelFiles& files, const Arguments& arguments);

}  // namespace sluice
