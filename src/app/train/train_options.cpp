#include "app/train/train_options.h"

#include <algorithm>

#include "app/open/open.h"
#include "app/train/kept_layers_option.h"
#include "base/text.h"

namespace sluice {
namespace {

std::vector<OptionSpec> adapter_options() {
  return {{.name = "--rank",
           .argument = "N",
           .kind = OptionKind::integer,
           .fallback = "16",
           .help = "of the adapter",
           .least = 1,
           .most = 4096},
          {.name = "--alpha",
           .argument = "X",
           .kind = OptionKind::number,
           .fallback = "32",
           .help = "the adapter's product is multiplied by alpha / rank",
           .least = 1e-6,
           .most = 1e6},
          {.name = "--targets",
           .argument = "LIST",
           .kind = OptionKind::text,
           .fallback = "all",
           .help = "the products it acts on, with commas between: attention, mlp, experts, delta-net, all"},
          {.name = "--gguf",
           .argument = "FILE.gguf",
           .kind = OptionKind::text,
           .help = "writes the adapter also as a GGUF file, for llama.cpp"},
          {.name = "--from", .argument = "DIR", .kind = OptionKind::text, .help = "goes on from an adapter of PEFT"}};
}

std::vector<OptionSpec> optimizer_options() {
  return {{.name = "--objective",
           .argument = "sft|dpo",
           .kind = OptionKind::choice,
           .fallback = "sft",
           .help = "sft: learns answers; dpo: learns to prefer one answer to another (direct preference optimization)"},
          {.name = "--dpo-beta",
           .argument = "X",
           .kind = OptionKind::number,
           .fallback = "0.1",
           .help = "how strongly dpo holds to the model that training began with",
           .least = 1e-6,
           .most = 1e6},
          {.name = "--rate",
           .argument = "X",
           .kind = OptionKind::number,
           .fallback = "2e-4",
           .help = "the learning rate; after the warm-up it falls to 0 as half a cosine",
           .least = 0,
           .most = 10},
          {.name = "--warm-up",
           .argument = "N",
           .kind = OptionKind::integer,
           .fallback = "0",
           .help = "steps in which the rate grows from 0"},
          {.name = "--beta1",
           .argument = "X",
           .kind = OptionKind::number,
           .fallback = "0.9",
           .help = "of AdamW",
           .least = 0,
           .most = 0.999999},
          {.name = "--beta2",
           .argument = "X",
           .kind = OptionKind::number,
           .fallback = "0.999",
           .help = "of AdamW",
           .least = 0,
           .most = 0.999999},
          {.name = "--weight-decay",
           .argument = "X",
           .kind = OptionKind::number,
           .fallback = "0.01",
           .help = "of AdamW, for every factor",
           .least = 0,
           .most = 10},
          {.name = "--clip",
           .argument = "X",
           .kind = OptionKind::number,
           .fallback = "1",
           .help = "the largest norm of all gradients together; 0: any",
           .least = 0,
           .most = 1e9}};
}

std::vector<OptionSpec> course_options() {
  return {{.name = "--epochs",
           .argument = "N",
           .kind = OptionKind::integer,
           .fallback = "1",
           .help = "how often every example is learnt",
           .least = 1,
           .most = 1e6},
          {.name = "--steps",
           .argument = "N",
           .kind = OptionKind::integer,
           .help = "steps at most; without --epochs, as many epochs as they need",
           .least = 1,
           .most = 1e9},
          {.name = "--batch-tokens",
           .argument = "N",
           .kind = OptionKind::integer,
           .fallback = "2048",
           .help = "tokens of a step; it has at least one example",
           .least = 2,
           .most = 1e7},
          {.name = "--part-tokens",
           .argument = "N",
           .kind = OptionKind::integer,
           .fallback = "512",
           .help = "of them, tokens that are computed at once: memory grows with them; at least the longest example",
           .least = 2,
           .most = 1e6},
          keep_layers_option(),
          {.name = "--context",
           .argument = "N",
           .kind = OptionKind::integer,
           .fallback = "2048",
           .help = "tokens of an example, at most",
           .least = 2,
           .most = 1e6},
          {.name = "--held-out",
           .argument = "X",
           .kind = OptionKind::number,
           .fallback = "0",
           .help = "the share of the examples that is evaluated and not learnt",
           .least = 0,
           .most = 0.9},
          {.name = "--evaluate-every",
           .argument = "N",
           .kind = OptionKind::integer,
           .fallback = "20",
           .help = "steps between two evaluations",
           .least = 1,
           .most = 1e9},
          {.name = "--sample",
           .argument = "PROMPT",
           .kind = OptionKind::text,
           .help = "asks it at every evaluation and shows the answer; may be repeated",
           .repeated = true},
          {.name = "--patience",
           .argument = "N",
           .kind = OptionKind::integer,
           .fallback = "0",
           .help = "ends after so many evaluations in a row that are no better than the best; 0: never"},
          {.name = "--save-every",
           .argument = "N",
           .kind = OptionKind::integer,
           .fallback = "50",
           .help = "steps between two checkpoints",
           .least = 1,
           .most = 1e9},
          {.name = "--seed",
           .argument = "N",
           .kind = OptionKind::integer,
           .fallback = "0",
           .help = "of the order of examples and of the first factors"},
          {.name = "--tensorboard", .help = "writes events for TensorBoard, into a folder of that name in DIR"},
          {.name = "--plot",
           .argument = "FILE.png",
           .kind = OptionKind::text,
           .help = "draws the curves of the losses at every evaluation and at the end"},
          {.name = "--learn-all", .help = "learns all tokens, not those of answers alone"},
          {.name = "--strict", .help = "refuses data with a line that cannot be used, in place of leaving it out"},
          {.name = "--dry-run",
           .help = "says how much memory and time training takes, by a measured piece, and leaves nothing"}};
}

}  // namespace

AdapterParts parts_of(const std::string& targets) {
  AdapterParts parts;
  for (const std::string& one : split(targets, ',')) {
    parts.attention |= one == "attention" || one == "all";
    parts.mlp |= one == "mlp" || one == "all";
    parts.experts |= one == "experts" || one == "all";
    parts.delta_net |= one == "delta-net" || one == "all";
  }
  return parts;
}

Status check_targets(const std::string& targets) {
  for (const std::string& one : split(targets, ','))
    if (one != "attention" && one != "mlp" && one != "experts" && one != "delta-net" && one != "all")
      return error(ErrorKind::invalid, "--targets: found ", printable(one),
                   ": want attention, mlp, experts, delta-net or all, with commas between");
  return {};
}

TrainerOptions trainer_options(const Arguments& arguments) {
  TrainerOptions options;
  options.arithmetic = parse_arithmetic(arguments.text("--arithmetic"));
  options.optimizer.beta1 = arguments.number("--beta1");
  options.optimizer.beta2 = arguments.number("--beta2");
  options.optimizer.weight_decay = arguments.number("--weight-decay");
  options.optimizer.clip = arguments.number("--clip");
  options.rate = arguments.number("--rate");
  options.warm_up = static_cast<uint64_t>(arguments.integer("--warm-up"));
  options.epochs = static_cast<uint64_t>(arguments.integer("--epochs"));
  if (arguments.given("--steps")) {
    options.steps = static_cast<uint64_t>(arguments.integer("--steps"));
    if (!arguments.given("--epochs")) options.epochs = options.steps;  // an epoch has a step at least
  }
  options.batch_tokens = static_cast<uint32_t>(arguments.integer("--batch-tokens"));
  options.part_tokens = std::min(static_cast<uint32_t>(arguments.integer("--part-tokens")), options.batch_tokens);
  options.held_out = arguments.number("--held-out");
  options.seed = static_cast<uint64_t>(arguments.integer("--seed"));
  if (arguments.text("--objective") == "dpo") options.dpo_beta = arguments.number("--dpo-beta");
  return options;
}

std::vector<OptionSpec> train_options() {
  return join_options({{{.name = "--out",
                         .argument = "DIR",
                         .kind = OptionKind::text,
                         .help = "the folder to write; required",
                         .required = true}},
                       adapter_options(),
                       optimizer_options(),
                       course_options(),
                       {arithmetic_option()},
                       device_options(),
                       {{.name = "--json", .help = "print one JSON object"}}});
}

}  // namespace sluice
