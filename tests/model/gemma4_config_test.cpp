// Configurations that are wrong, from config.json: what exactly is said.
#include <gtest/gtest.h>

#include "tests/model/text_bench.h"
#include "tests/model/tiny_model.h"

namespace sluice {
namespace {

using tests::like_12b;
using tests::like_26b;
using tests::like_e4b;
using tests::tiny_config;
using tests::tiny_tensors;
using tests::TinyShape;

class Gemma4Config : public tests::TinyModel {
 protected:
  // The member at a path of names joined by dots.
  static Json& at(Json& config, const std::string& path) {
    Json* json = &config;
    for (const std::string& part : split(path, '.'))
      for (auto& [name, value] : json->as_object())
        if (name == part) {
          json = &value;
          break;
        }
    return *json;
  }

  // The error of a model whose text_config has `value` at `path`, without the folder's name.
  std::string error_with(const std::string& path, Json value, const TinyShape& shape = {}) {
    Json config = tiny_config(shape);
    at(config, "text_config." + path) = std::move(value);
    return error_of(config, shape);
  }
  std::string error_of(const Json& config, const TinyShape& shape = {}) {
    put_model(config, tiny_tensors(shape));
    const Result<Model> model = open_model(folder_);
    if (model) return "";
    EXPECT_TRUE(starts_with(model.error().text, folder_)) << model.error().text;
    return model.error().text.substr(folder_.size() + 1);
  }
};

TEST_F(Gemma4Config, IsReadWhenItIsRight) {
  EXPECT_EQ(error_of(tiny_config({})), "");
  put_model(like_26b());
  const Result<Model> model = open_model(folder_);
  ASSERT_TRUE(model) << model.error().text;
  const ModelFacts& facts = model->facts();
  EXPECT_EQ(facts.family, "gemma4");
  EXPECT_EQ(facts.vocabulary, 96u);
  EXPECT_EQ(facts.hidden, 32u);
  EXPECT_EQ(facts.layers, 6u);
  EXPECT_EQ(facts.context_length, 131072u);
  EXPECT_EQ(facts.eos_ids, (std::vector<int32_t>{1, 16}));
  const std::pair<std::string, std::string> experts = {"experts", "6 of 16, 2 for each token"};
  EXPECT_EQ(facts.details.back(), experts);
}

TEST_F(Gemma4Config, TextConfigMayBeTheWholeFile) {
  Json config = *tiny_config({}).find("text_config");
  EXPECT_EQ(error_of(config), "");
  config.as_object()[0].second = "gemma4_unified_text";
  EXPECT_EQ(error_of(config), "");
}

TEST_F(Gemma4Config, NumbersOutOfRangeAreRefused) {
  EXPECT_EQ(error_with("num_attention_heads", 0), "config.json: text_config.num_attention_heads is 0: want 1 to 4096");
  EXPECT_EQ(error_with("num_hidden_layers", 1000000),
            "config.json: text_config.num_hidden_layers is 1000000: want 1 to 512");
  EXPECT_EQ(error_with("hidden_size", -32), "config.json: text_config.hidden_size is -32: want 1 to 1048576");
  EXPECT_EQ(error_with("head_dim", 2.5), "config.json: text_config.head_dim is 2.5: want 2 to 16384");
  EXPECT_EQ(error_with("vocab_size", 1e300), "config.json: text_config.vocab_size is 1e+300: want 1 to 16777216");
  EXPECT_EQ(error_with("rms_norm_eps", 0.0), "config.json: text_config.rms_norm_eps is 0.0: want 1e-12 to 1");
  EXPECT_EQ(error_with("sliding_window", Json()),
            "config.json: text_config.sliding_window is null: want 1 to 268435456");
}

TEST_F(Gemma4Config, ValuesOfAnotherKindAreRefused) {
  EXPECT_EQ(error_with("hidden_size", "32"), "config.json: text_config.hidden_size is \"32\": want 1 to 1048576");
  EXPECT_EQ(error_with("hidden_size", Json::Array{32}),
            "config.json: text_config.hidden_size is an array: want 1 to 1048576");
  EXPECT_EQ(error_with("attention_k_eq_v", "yes"),
            "config.json: text_config.attention_k_eq_v is \"yes\": want true or false");
  EXPECT_EQ(error_with("rope_parameters", 1),
            "config.json: text_config.rope_parameters.full_attention.rope_theta is missing");
}

TEST_F(Gemma4Config, MissingFieldsAreNamed) {
  Json config = tiny_config({});
  Json& text = at(config, "text_config");
  std::erase_if(text.as_object(), [](const auto& member) { return member.first == "num_key_value_heads"; });
  EXPECT_EQ(error_of(config), "config.json: text_config.num_key_value_heads is missing");
}

TEST_F(Gemma4Config, OneValueALayer) {
  EXPECT_EQ(error_with("layer_types", Json::Array{"full_attention"}),
            "config.json: text_config.layer_types has 1 entries: want one for each of 3 layers");
  EXPECT_EQ(
      error_with("layer_types", Json::Array{"full_attention", "linear_attention", "full_attention"}),
      "config.json: text_config.layer_types[1] is \"linear_attention\": want full_attention or sliding_attention");
  EXPECT_EQ(error_with("intermediate_size", Json::Array{48, 0, 48}),
            "config.json: text_config.intermediate_size[1] is 0: want 1 to 1048576");
}

TEST_F(Gemma4Config, OtherGraphsAreRefused) {
  EXPECT_EQ(error_with("hidden_activation", "silu"),
            "config.json: text_config.hidden_activation is \"silu\": want \"gelu_pytorch_tanh\"");
  EXPECT_EQ(error_with("rope_parameters.full_attention.rope_type", "yarn"),
            "config.json: text_config.rope_parameters.full_attention.rope_type is \"yarn\": want \"proportional\"");
}

TEST_F(Gemma4Config, PicturesMaySeeAheadButTextMayNot) {
  EXPECT_EQ(error_with("use_bidirectional_attention", "vision"), "");
  EXPECT_EQ(error_with("use_bidirectional_attention", "all"),
            "config.json: text_config.use_bidirectional_attention is \"all\": want \"vision\"");
}

TEST_F(Gemma4Config, FieldsThatDoNotFitEachOther) {
  EXPECT_EQ(error_with("num_attention_heads", 3),
            "config.json: text_config.num_attention_heads is 3: want a multiple of the 2 heads of keys and values");
  EXPECT_EQ(error_with("global_head_dim", 33), "config.json: text_config.global_head_dim is 33: want an even number");
  EXPECT_EQ(error_with("num_kv_shared_layers", 3),
            "config.json: text_config.num_kv_shared_layers is 3: want less than the 3 layers");
  EXPECT_EQ(error_with("num_kv_shared_layers", 1),
            "config.json: text_config.num_kv_shared_layers is 1: want an earlier layer whose keys layer 2 can share");
  EXPECT_EQ(error_with("top_k_experts", 7, like_26b()), "config.json: text_config.top_k_experts is 7: want 1 to 6");
  EXPECT_EQ(error_with("moe_intermediate_size", Json(), like_26b()),
            "config.json: text_config.moe_intermediate_size is 0: want 1 to 1048576");
}

// As transformers writes it since 5.15.
class Gemma4LayerConfig : public Gemma4Config {
 protected:
  static Json config_with(const TinyShape& shape, Json layers) {
    Json config = tiny_config(shape);
    auto& text = at(config, "text_config").as_object();
    std::erase_if(text, [](const auto& member) {
      return member.first == "global_head_dim" || member.first == "num_global_key_value_heads";
    });
    text.emplace_back("per_layer_config", std::move(layers));
    return config;
  }
  // Of a tiny model of three layers, the last of them full, without the path.
  std::string said(const char* layers) {
    const std::string before = "config.json: text_config.per_layer_config",
                      text = error_of(config_with({}, *parse_json(layers, "")));
    return starts_with(text, before) ? text.substr(before.size()) : text;
  }
};

TEST_F(Gemma4LayerConfig, SavedByTransformersSince515WasRefused) {
  const TinyShape e4b = like_e4b(), b12 = like_12b();
  put_model(e4b);
  const std::string digest = open_model(folder_)->digest();
  put("config.json", write_json(config_with(e4b, *parse_json(R"({"02": {"head_dim": 32}, "5": {"head_dim": 32},
                                                  "08": {"head_dim": 32}})",
                                                             ""))));
  const Result<Model> model = open_model(folder_);
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_EQ(model->digest(), digest);

  put_model(b12);
  const std::string digest_of_12b = open_model(folder_)->digest();
  put("config.json",
      write_json(config_with(b12, *parse_json(R"({"5": {"head_dim": 32, "num_key_value_heads": 1}})", ""))));
  const Result<Model> large = open_model(folder_);
  ASSERT_TRUE(large) << large.error().text;
  EXPECT_EQ(large->digest(), digest_of_12b);
}

TEST_F(Gemma4LayerConfig, SaysNothingWhereAllLayersAreAlike) {
  const TinyShape alike{.head_dim = 16, .full_head_dim = 16};
  EXPECT_EQ(error_of(config_with(alike, Json::Object()), alike), "");
  EXPECT_EQ(error_of(config_with(alike, *parse_json(R"({"0": {"head_dim": 16}, "2": {"head_dim": 16}})", "")), alike),
            "");
}

TEST_F(Gemma4LayerConfig, OldKeysWin) {
  Json config = tiny_config({});
  at(config, "text_config").as_object().emplace_back("per_layer_config", *parse_json(R"({"2": {"head_dim": 64}})", ""));
  EXPECT_EQ(error_of(config), "");
}

TEST_F(Gemma4LayerConfig, WithoutBothKeysTheOldOneIsNamed) {
  EXPECT_EQ(error_of(config_with({}, Json())), "config.json: text_config.global_head_dim is missing");
}

TEST_F(Gemma4LayerConfig, MistakesAreOneSentence) {
  EXPECT_EQ(said("4"), " is 4: want an object with a member a layer");
  EXPECT_EQ(said(R"({"3": {"head_dim": 32}})"), ".3 is no layer: want numbers below 3");
  EXPECT_EQ(said(R"({"-1": {}})"), ".-1 is no layer: want numbers below 3");
  EXPECT_EQ(said(R"({"99999999999999999999": {}})"), ".99999999999999999999 is no layer: want numbers below 3");
  EXPECT_EQ(said(R"({"2": {"head_dim": 32}, "02": {"head_dim": 64}})"), ".02 is there twice: want one entry a layer");
  EXPECT_EQ(said(R"({"2": 32})"), ".2 is 32: want an object");
  EXPECT_EQ(said(R"({"2": {"head_dim": 2.5}})"), ".2.head_dim is 2.5: want 2 to 16384");
  EXPECT_EQ(said(R"({"2": {"head_dim": "32"}})"), ".2.head_dim is \"32\": want 2 to 16384");
  EXPECT_EQ(said(R"({"2": {"head_dim": 32, "sliding_window": 4}})"),
            ".2.sliding_window is not known: want head_dim or num_key_value_heads");
  EXPECT_EQ(said(R"({"1": {"head_dim": 32}, "2": {"head_dim": 32}})"),
            ".1.head_dim is 32 in a sliding layer: want 16, as for all");
  const TinyShape e4b = like_e4b();  // whose layers 2, 5 and 8 are full
  EXPECT_EQ(error_of(config_with(e4b, *parse_json(R"({"2": {"head_dim": 32}, "8": {"head_dim": 32}})", "")), e4b),
            "config.json: text_config.per_layer_config has another head_dim for layer 5 than for full layers before: "
            "want one for all of them");
}

TEST_F(Gemma4Config, PerLayerEmbeddingsNeedTheirWidthOnlyWhereTheyAre) {
  const auto without = [&](const TinyShape& shape) {
    Json config = tiny_config(shape);
    std::erase_if(at(config, "text_config").as_object(),
                  [](const auto& member) { return member.first == "hidden_size_per_layer_input"; });
    return error_of(config, shape);
  };
  EXPECT_EQ(without({}), "") << "as gemma4_unified has it";
  EXPECT_EQ(without(like_e4b()),
            "config.json: text_config.hidden_size_per_layer_input is missing or 0: want the width of "
            "embed_tokens_per_layer.weight");
}

TEST_F(Gemma4Config, WhetherTheHeadIsTiedMayBeSaidAtTheRoot) {
  const auto error_with_root = [&](Json value, bool tied) {
    const TinyShape shape{.tied = tied};
    Json config = tiny_config(shape);
    std::erase_if(at(config, "text_config").as_object(),
                  [](const auto& member) { return member.first == "tie_word_embeddings"; });
    config.as_object().emplace_back("tie_word_embeddings", std::move(value));
    return error_of(config, shape);
  };
  EXPECT_EQ(error_with_root(true, true), "");
  EXPECT_EQ(error_with_root(false, false), "");
  EXPECT_EQ(error_with_root(false, true), " a tensor is missing: model.language_model.lm_head.weight");
  EXPECT_EQ(error_with_root("no", true), "config.json: tie_word_embeddings is \"no\": want true or false");
}

TEST_F(Gemma4Config, ShapesTooLargeForAProgramAreRefused) {
  EXPECT_EQ(error_with("hidden_size", 1048576),
            "model.safetensors: model.language_model.embed_tokens.weight is f32 [96, 32]: want [96, 1048576]");
}

TEST_F(Gemma4Config, UnknownArchitecturesAreNamed) {
  Json config = tiny_config({});
  at(config, "model_type") = "llama";
  const std::string unknown =
      "config.json: a Llama model (model_type is llama): want Gemma 4, Qwen3.5/3.6 or DeepSeek-V3";
  EXPECT_EQ(error_of(config).substr(0, unknown.size()), unknown) << "and the other families";
  std::erase_if(config.as_object(), [](const auto& member) { return member.first == "model_type"; });
  EXPECT_EQ(error_of(config), "config.json: model_type is missing");
}

TEST_F(Gemma4Config, ListsOfTokensAreBounded) {
  put_model(TinyShape{});
  const auto of = [](size_t count) { return Json::Array(count, Json(5)); };
  put("generation_config.json", write_json(Json::Object{{"suppress_tokens", of(16384)}}));
  EXPECT_EQ(open_model(folder_)->facts().suppress_tokens, std::vector<int32_t>{5});
  put("generation_config.json", write_json(Json::Object{{"suppress_tokens", of(16385)}}));
  EXPECT_EQ(open_model(folder_).error().text,
            path("generation_config.json") + ": suppress_tokens has 16385 entries: want at most 16384");
  put("generation_config.json", write_json(Json::Object{{"eos_token_id", of(16385)}}));
  EXPECT_EQ(open_model(folder_).error().text,
            path("generation_config.json") + ": eos_token_id has 16385 entries: want at most 16384");
}

TEST_F(Gemma4Config, DefaultsForSampling) {
  put_model(TinyShape{});
  put("generation_config.json", R"({"do_sample": true, "temperature": 0.5, "top_k": 64, "top_p": 0.95,
                                    "eos_token_id": [1, 16, 9], "suppress_tokens": [5, 4000]})");
  const Result<Model> model = open_model(folder_);
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_EQ(model->facts().sampling.temperature, 0.5f);
  EXPECT_EQ(model->facts().sampling.top_k, 64u);
  EXPECT_EQ(model->facts().sampling.top_p, 0.95f);
  EXPECT_EQ(model->facts().sampling.min_p, std::nullopt);
  EXPECT_EQ(model->facts().eos_ids, (std::vector<int32_t>{1, 16, 9}));
  EXPECT_EQ(model->facts().suppress_tokens, std::vector<int32_t>{5});  // 4000 is outside the vocabulary

  put("generation_config.json", R"({"do_sample": false, "temperature": 0.5})");
  EXPECT_EQ(open_model(folder_)->facts().sampling.temperature, 0.0f);
}

// top_k = -1 is what others write for "off".
TEST_F(Gemma4Config, ASamplingDefaultOutOfRangeDoesNotRefuseTheModel) {
  put_model(TinyShape{});
  put("generation_config.json", R"({"top_k": -1, "temperature": 0.5})");
  Result<Model> model = open_model(folder_);
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_EQ(model->facts().sampling.top_k, 0u);
  EXPECT_EQ(model->facts().sampling.temperature, 0.5f);
  EXPECT_EQ(model->facts().ignored, std::vector<std::string>());

  put("generation_config.json", R"({"top_p": 1.5, "top_k": 16777217, "min_p": "low", "temperature": 0.5})");
  model = open_model(folder_);
  ASSERT_TRUE(model) << model.error().text;
  EXPECT_EQ(model->facts().sampling.top_p, std::nullopt);
  EXPECT_EQ(model->facts().sampling.top_k, std::nullopt);
  EXPECT_EQ(model->facts().sampling.temperature, 0.5f);
  const std::string where = path("generation_config.json");
  EXPECT_EQ(model->facts().ignored, (std::vector<std::string>{where + ": top_k is 16777217: want 0 to 16777216",
                                                              where + ": top_p is 1.5: want 0 to 1",
                                                              where + ": min_p is no number: want 0 to 1"}));
}

}  // namespace
}  // namespace sluice
