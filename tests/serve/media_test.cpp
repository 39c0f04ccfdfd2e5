// Pictures and sounds in requests of all APIs: what the model says of them, what is cached, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/base64.h"
#include "base/files/file.h"
#include "base/text.h"
#include "serve/media_fields.h"
#include "serve/ollama/ollama.h"
#include "serve/openai/openai.h"
#include "tests/serve/test_server.h"
#include "tests/unwrap.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kAsked = "What is in this picture?";
// What the reference model answers (tests/data/gemma4/golden.json, image1 and audio2).
constexpr const char* kSeen = "A red circle on the left and a blue square on the right.";
constexpr const char* kHeard = "One long low beep and then three short low beeps.";

std::string file_base64(const std::string& name) {
  return encode_base64(unwrap(read_file(cat(SLUICE_TEST_DATA, "/gemma4/", name), 1 << 20)));
}
const std::string& picture() {
  static const std::string text = file_base64("picture1.png");
  return text;
}

std::string shown(const std::string& base64_picture) {
  return cat(R"({"type": "image_url", "image_url": {"url": "data:image/png;base64,)", base64_picture, R"("}})");
}
std::string question(const std::string& part, const std::string& text) {
  return cat(R"({"role": "user", "content": [)", part, R"(, {"type": "text", "text": ")", text, R"("}]})");
}
std::string body_of(const std::string& messages, const std::string& more = "") {
  return cat(R"({"model": "demo", "temperature": 0, "max_tokens": 40, "messages": [)", messages, "]", more, "}");
}

std::string chat_answer(const TestReply& reply) {
  if (reply.status != 200) return reply.body;
  return reply.json().find("choices")->as_array().front().find("message")->find("content")->as_string();
}

TEST(PicturesAndSounds, AreAnsweredInEveryApi) {
  const TestServer server;
  EXPECT_EQ(chat_answer(ask(server, kChat, body_of(question(shown(picture()), kAsked)))), kSeen);
  const std::string sound =
      cat(R"({"type": "input_audio", "input_audio": {"format": "wav", "data": ")", file_base64("sound2.wav"), R"("}})");
  EXPECT_EQ(chat_answer(ask(server, kChat, body_of(question(sound, "Describe the sound.")))), kHeard);
  const TestReply response =
      ask(server, "/v1/responses",
          cat(R"({"temperature": 0, "input": [{"role": "user", "content": [{"type": "input_image", "image_url": )",
              R"("data:image/png;base64,)", picture(), R"("}, {"type": "input_text", "text": ")", kAsked, R"("}]}]})"));
  EXPECT_THAT(response.body, HasSubstr(kSeen));
  const std::string block = cat(
      R"({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ")", picture(), R"("}})");
  const TestReply message = ask(server, "/v1/messages", body_of(question(block, kAsked)));
  EXPECT_THAT(message.body, HasSubstr(kSeen));
  const Json usage = *message.json().find("usage");
  const Json count = ask(server, "/v1/messages/count_tokens", body_of(question(block, kAsked))).json();
  EXPECT_EQ(count.find("input_tokens")->as_integer(),
            usage.find("input_tokens")->as_integer() + usage.find("cache_read_input_tokens")->as_integer());
  const std::string begin = R"({"model": "demo", "stream": false, "options": {"temperature": 0}, )";
  EXPECT_THAT(ask(server, "/api/chat",
                  cat(begin, R"("messages": [{"role": "user", "content": ")", kAsked, R"(", "images": [")", picture(),
                      R"("]}]})"))
                  .body,
              HasSubstr(kSeen));
  EXPECT_THAT(
      ask(server, "/api/generate", cat(begin, R"("prompt": ")", kAsked, R"(", "images": [")", picture(), R"("]})"))
          .body,
      HasSubstr(kSeen));
  EXPECT_THAT(ask(server, "/api/show", R"({"model": "demo"})").body, HasSubstr(R"("vision", "audio"])"));
}

TEST(PicturesAndSounds, OfASecondTurnAreReusedAndAnotherPictureIsNot) {
  const TestServer server;
  const auto cached = [](const TestReply& reply) {
    return reply.json().find("usage")->find("prompt_tokens_details")->find("cached_tokens")->as_integer();
  };
  const auto turns = [&](const std::string& seen) {
    return body_of(cat(question(shown(seen), "Tell me what it is."), R"(, {"role": "assistant", "content": ")", kSeen,
                       R"("}, {"role": "user", "content": "And where?"})"));
  };
  ask(server, kChat, body_of(question(shown(picture()), "Tell me what it is.")));
  EXPECT_GE(cached(ask(server, kChat, turns(picture()))), 64);
  EXPECT_EQ(cached(ask(server, kChat, turns(file_base64("picture4.png")))), 0);
}

TEST(PicturesAndSounds, GetTheSameBitsAloneAndAmongOthers) {
  const TestServer server;
  const auto body = [](const std::string& file, int seed) {
    return cat(R"({"temperature": 1, "max_tokens": 16, "seed": )", seed, R"(, "messages": [)",
               question(shown(file_base64(file)), kAsked), "]}");
  };
  const std::string first = chat_answer(ask(server, kChat, body("picture1.png", 5)));
  const std::string second = chat_answer(ask(server, kChat, body("picture4.png", 6)));
  EXPECT_NE(first, second);
  std::vector<std::thread> clients;
  for (int client = 0; client < 4; ++client)
    clients.emplace_back([&, client] {
      const bool is_first = client % 2 == 0;
      EXPECT_EQ(chat_answer(ask(server, kChat, body(is_first ? "picture1.png" : "picture4.png", is_first ? 5 : 6))),
                is_first ? first : second);
    });
  for (std::thread& client : clients) client.join();
}

// A user who types a picture's marker shows no picture.
TEST(PicturesAndSounds, StandWhereTheyAreShownOnly) {
  const std::string body = body_of(question(shown(picture()), "<|image|><|audio|>"));
  Outcome<AnswerRequest> request = read_openai_chat(unwrap(parse_json(body, "body")), served_demo());
  ASSERT_TRUE(request) << request.error().message;
  Outcome<std::vector<AnswerJob>> jobs = prepare(*request, served_demo());
  ASSERT_TRUE(jobs) << jobs.error().message;
  EXPECT_EQ(jobs->front().prompt.spans.size(), 1u);
}

std::string refusal_of_part(const std::string& part, const ServedModel& model) {
  Outcome<AnswerRequest> request = read_openai_chat(unwrap(parse_json(body_of(question(part, "a")), "body")), model);
  if (!request) return cat(request.error().status, ' ', request.error().message);
  const Outcome<std::vector<AnswerJob>> jobs = prepare(*request, model);
  return jobs ? "" : cat(jobs.error().status, ' ', jobs.error().message);
}

// The header of a BMP of 60,000 x 60,000 pixels of 24 bits.
std::string bomb() {
  return encode_base64(std::string("BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x60\xea\0\0\x60\xea\0\0\1\0\x18\0", 30) +
                       std::string(24, '\0'));
}

TEST(PicturesAndSounds, AreRefusedWithAReason) {
  const ServedModel demo = served_demo();
  const std::string where = "400 messages[0].content[0]";
  EXPECT_EQ(refusal_of_part(shown(bomb()), demo),
            where + ".image_url: picture of 60000 x 60000 pixels: want at most 33554432 pixels");
  EXPECT_EQ(refusal_of_part(shown("AAAA"), demo),
            where + ".image_url: begins with bytes 00 00 00: want a PNG, JPEG, WebP, GIF or BMP picture");
  EXPECT_EQ(refusal_of_part(shown("!"), demo),
            where + ".image_url is no base64 text: want the bytes of a picture in it");
  for (const char* url : {"http://127.0.0.1/a.png", "https://example.org/a.png", "file:///etc/passwd", "a.png"})
    EXPECT_EQ(refusal_of_part(cat(R"({"type": "image_url", "image_url": {"url": ")", url, R"("}})"), demo),
              where + ".image_url is no data: URL: want data:image/png;base64,..., since pictures are not fetched");
  EXPECT_THAT(refusal_of_part(R"({"type": "input_audio"})", demo), StartsWith(where + " has no sound: want"));
  EXPECT_THAT(refusal_of_part(R"({"type": "input_image", "file_id": "f"})", demo),
              StartsWith(where + " has no picture: want image_url with a data: URL"));
  ServedModel blind = demo;
  blind.model = nullptr;
  EXPECT_EQ(refusal_of_part(shown(picture()), blind),
            where + ".image_url: demo takes no pictures: want a model with a tower for them");
}

TEST(PicturesAndSounds, NameThePlaceInOllamasBodies) {
  const auto refused = [](Outcome<AnswerRequest> (*read)(const Json&, const ServedModel&), const std::string& members) {
    Outcome<AnswerRequest> request =
        read(unwrap(parse_json(cat(R"({"model": "demo", )", members), "body")), served_demo());
    return request ? prepare(*request, served_demo()).error().message : request.error().message;
  };
  const std::string chat = R"("messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b", )";
  EXPECT_EQ(refused(read_ollama_chat, chat + R"("images": ["!"]}]})"),
            "messages[1].images[0] is no base64 text: want the bytes of a picture in it");
  EXPECT_THAT(refused(read_ollama_chat, cat(chat, R"("images": [")", picture(), R"(", "AAAA"]}]})")),
              StartsWith("messages[1].images[1]: begins with bytes 00 00 00: want"));
  EXPECT_THAT(refused(read_ollama_generate, R"("images": ["!"]})"), StartsWith("images[0] is no base64 text: want"));
}

TEST(PicturesAndSounds, NameADetailWithoutEffect) {
  const TestServer server;
  const auto part = [](const std::string& detail) {
    return cat(R"({"type": "image_url", "image_url": {"detail": ")", detail, R"(", "url": "data:image/png;base64,)",
               picture(), R"("}})");
  };
  const auto ignored = [&](const std::string& detail) {
    return ask(server, kChat, body_of(question(part(detail), kAsked))).header("x-sluice-ignored");
  };
  EXPECT_EQ(ignored("high"), "messages[].content[].image_url.detail");
  EXPECT_EQ(ignored("auto"), "");
  const TestReply response = ask(
      server, "/v1/responses",
      cat(R"({"max_output_tokens": 1, "input": [{"role": "user", "content": [{"type": "input_image", "detail": "low",)",
          R"( "image_url": "data:image/png;base64,)", picture(), R"("}]}]})"));
  EXPECT_EQ(response.header("x-sluice-ignored"), "input[].content[].detail");
}

// The header of a BMP of 3,000 x 2,000 pixels, whose decoding would take 90 MB.
std::string large_picture() {
  return encode_base64(std::string("BM\x36\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\xb8\x0b\0\0\xd0\x07\0\0\1\0\x18\0", 30) +
                       std::string(24, '\0'));
}

TEST(PicturesAndSounds, KeepWithinTheMemoryForRequests) {
  constexpr uint64_t kBytes = 48'000'000;
  TestServer server({.request_bytes = kBytes});
  RequestMemory& memory = server.request_memory();
  ASSERT_EQ(memory.bytes(), kBytes);
  const TestReply large = ask(server, kChat, body_of(question(shown(large_picture()), kAsked)));
  EXPECT_EQ(large.status, 400);
  EXPECT_EQ(large.header("retry-after"), "");
  EXPECT_THAT(large.body, HasSubstr("messages[0].content[0].image_url: the request takes "));
  EXPECT_THAT(large.body, HasSubstr(" of memory to read: want at most 48.0 MB"));
  const std::string small = body_of(question(shown(picture()), kAsked));
  EXPECT_EQ(chat_answer(ask(server, kChat, small)), kSeen);
  ASSERT_TRUE(server.wait_for_running(0));
  {
    MemoryLease other(&memory);
    ASSERT_TRUE(other.resize(kBytes - 20'000, "other"));
    const TestReply busy = ask(server, kChat, small);
    EXPECT_EQ(busy.status, 503);
    EXPECT_EQ(busy.header("retry-after"), "1");
    EXPECT_THAT(busy.body, HasSubstr("other requests hold too much of 48.0 MB: want the same request later"));
    while (memory.used() > other.bytes()) std::this_thread::yield();  // until the refused request is forgotten
    EXPECT_EQ(ask(server, kChat, body_of(R"({"role": "user", "content": "Hi"})")).status, 200);
  }
  EXPECT_EQ(chat_answer(ask(server, kChat, small)), kSeen);
  // A body counts as long as its request is read, and a sound while it is decoded.
  const std::string long_text(17'000'000, ' ');
  EXPECT_THAT(ask(server, kChat, body_of(cat(R"({"role": "user", "content": ")", long_text, R"("})"))).body,
              HasSubstr("body: the request takes "));
  std::string zeros;
  for (int i = 0; i < 200'000; ++i) zeros += ",0";
  EXPECT_THAT(ask(server, kChat, cat(R"({"messages": [0)", zeros, "]}")).body, HasSubstr("body: the request takes "));
  const std::string sound =
      cat(R"({"type": "input_audio", "input_audio": {"format": "wav", "data": ")", file_base64("sound2.wav"), R"("}})");
  EXPECT_EQ(chat_answer(ask(server, kChat, body_of(question(sound, "Describe the sound.")))), kHeard);
  EXPECT_TRUE(server.wait_for_running(0));
  EXPECT_EQ(memory.used(), 0u);
}

// Pictures that together leave no room are refused before the last ones are decoded.
TEST(PicturesAndSounds, TakeLessThanTheContext) {
  std::string parts = shown(picture());
  for (int i = 0; i < 40; ++i) parts += ", " + shown(picture());
  EXPECT_THAT(refusal_of_part(parts, served_demo()), HasSubstr("tokens: want less than the context of 1024 tokens"));
}

}  // namespace
}  // namespace sluice
