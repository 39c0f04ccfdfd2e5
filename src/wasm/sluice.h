// What the page's module exports (docs/wasm.md). The host is JavaScript; one thread of it, the engine's, makes all
// calls but those of the module's other threads.
//
// Addresses and sizes are 32-bit numbers of the module's memory. Texts are UTF-8 with their number of bytes. Every call
// that can fail returns 1, or 0 for failure. sluice_reply() and sluice_reply_bytes() then give the reply, or the
// sentence that says why there is none, until the next call.
#pragma once

#include <cstddef>
#include <cstdint>

#define SLUICE_EXPORT(name) __attribute__((export_name(#name))) name

namespace sluice::wasm {
class Instance;
}

extern "C" {

// ---- memory and files

// null when there is no room.
void* SLUICE_EXPORT(sluice_allocate)(size_t bytes);
void SLUICE_EXPORT(sluice_free)(void* bytes);
// A file that sluice_open may name or find in a folder. The module reads it by files.read(number, offset, into, bytes),
// and calls files.close(number) once the name is gone and nothing reads it. A file of that name is replaced.
void SLUICE_EXPORT(sluice_add_file)(const char* path, size_t path_bytes, uint32_t number, double size);
void SLUICE_EXPORT(sluice_remove_file)(const char* path, size_t path_bytes);

const void* SLUICE_EXPORT(sluice_reply)();
size_t SLUICE_EXPORT(sluice_reply_bytes)();

// ---- threads, of sluice_threads.wasm alone (base/page_threads.h)

// By the engine's thread before it opens a model: how many threads there are to be with it.
void SLUICE_EXPORT(sluice_expect_threads)(uint32_t threads);
// By each of the others, from 1 on, in an instance around the same memory with a stack of its own. Does not return.
void SLUICE_EXPORT(sluice_work)(uint32_t thread);
// By one whose sluice_work trapped: the engine's thread then traps too, instead of waiting for it.
void SLUICE_EXPORT(sluice_fail_threads)();

// ---- a model

// Reads headers and small documents alone, so that a file is known to be a model before anything large happens.
// options:
// {"model", "projector"} as sluice_open takes them. Replies {"name", "family", "parameters"}.
int SLUICE_EXPORT(sluice_inspect)(const char* options, size_t bytes);
// options: {"model": path, "projector": path of a GGUF file with the model's towers, "arithmetic": "fast" | "exact",
// "cache": "f32" | "f16" | "bf16", "device": "webgpu" | "cpu" | "reference", "context": positions, "memory": bytes that
// it may take where it computes, of the GPU's or of the module's, "expert_memory": bytes of those for experts, where it
// has such, "adapter_slots": sums of adapters for which there is room, "adapter_rank": their highest rank, 16 without};
// all but the model may be left out. Experts that find no room are read from the files as they are chosen;
// in the module's memory less than 2 GiB of them have it. null for failure. Replies {"name", "device",
// "device_description", "numerics_id", "vocabulary", "context", "ends": tokens that end an answer, "has_chat_template",
// "takes_pictures", "takes_sounds", "sampling": what the model's own files ask for}.
sluice::wasm::Instance* SLUICE_EXPORT(sluice_open)(const char* options, size_t bytes);
// Uploads some more of it to the GPU. Replies {"bytes", "of"}; the host lets its GPU settle and calls again, until they
// are equal after it has settled. The host does so when it has opened a model, changed its adapters, or trained one.
int SLUICE_EXPORT(sluice_load)(sluice::wasm::Instance* instance);
void SLUICE_EXPORT(sluice_close)(sluice::wasm::Instance* instance);

// ---- text

// Replies tokens as i32. Control tokens in the text become those tokens; none are added.
int SLUICE_EXPORT(sluice_encode)(sluice::wasm::Instance* instance, const char* text, size_t bytes);
// Replies text.
int SLUICE_EXPORT(sluice_decode)(sluice::wasm::Instance* instance, const int32_t* tokens, size_t count);
// chat: {"messages": [...], "extra": {...}}, the latter for further variables of the template. Replies text.
int SLUICE_EXPORT(sluice_render)(sluice::wasm::Instance* instance, const char* chat, size_t bytes);

// ---- pictures and sounds, which the page decodes: prepared once, and named by number in turns and requests

// pixels: RGBA, row by row from the top; transparency is dropped. max_rows: the most tokens that it takes, 0 for the
// model's own number. Replies {"media": [number], "rows": tokens}.
int SLUICE_EXPORT(sluice_add_picture)(sluice::wasm::Instance* instance, const uint8_t* pixels, size_t bytes,
                                      uint32_t width, uint32_t height, uint32_t max_rows);
// Frames of one size, one behind the other. Replies {"media": numbers, each of what the model takes at once, "rows"}.
int SLUICE_EXPORT(sluice_add_film)(sluice::wasm::Instance* instance, const uint8_t* pixels, size_t bytes,
                                   uint32_t width, uint32_t height, uint32_t frames);
// One channel from -1 to 1; towers take 16,000 samples a second. Replies {"media": [number], "rows"}.
int SLUICE_EXPORT(sluice_add_sound)(sluice::wasm::Instance* instance, const float* samples, size_t count,
                                    uint32_t rate);
// An answer under way keeps it.
void SLUICE_EXPORT(sluice_remove_media)(sluice::wasm::Instance* instance, uint32_t number);

// ---- adapters, which act on answers that begin later

// change: {"add": path of a GGUF file or a folder of PEFT or MLX, "scale": 1}, {"rescale": name, "scale": number},
// {"drop": name}, or {} for none. Replies all there are: [{"name", "scale", "rank", "weights": how many it changes}].
// Where the slots of sluice_open have no room, the engine is opened again, with room for them at any scale: kept
// sequences are gone then, and no answer may be under way. The host calls sluice_load afterwards.
int SLUICE_EXPORT(sluice_adapters)(sluice::wasm::Instance* instance, const char* change, size_t bytes);

// ---- the page's conversation: one answer at a time, each going on from what the one before has computed

// turn: {"messages": [...], "variables": {...}: further ones of the chat template, or "prompt": text that no template
// renders, "stop": [strings], "max_tokens": n, 0 for what the context leaves, "adapters": {name: scale} of those that
// act, all with their own scales without it, "schema": a JSON Schema that the answer keeps to, and further settings
// under their names in engine/sampling_json.h, "temperature" being 0}; all but the messages or the prompt may be left
// out. A message that shows something has a list of parts as its content: {"type": "text", "text": ...}, {"type":
// "image", "media": number} and {"type": "audio", "media": number}.
int SLUICE_EXPORT(sluice_begin)(sluice::wasm::Instance* instance, const char* turn, size_t bytes);
// One step of the answer. Replies its new parts: {"text", "thinking": whole characters, thinking apart from the answer,
// cut at a stop string, "tool_calls": [{"name", "arguments"}], found where "variables" has "tools", "finish": "running"
// | "stop" | "length" | "cancelled"}, and the counts of the whole turn: {"prompt_tokens", "reused_tokens",
// "computed_tokens": of the prompt, "answer_tokens", "prompt_seconds", "answer_seconds"}. 2: the device computes, and
// nothing has happened. An answer that fails is over.
int SLUICE_EXPORT(sluice_go_on)(sluice::wasm::Instance* instance);
// The kept sequence of the conversation, for sluice_save; 0: it has none.
uint32_t SLUICE_EXPORT(sluice_sequence)(sluice::wasm::Instance* instance);
// Goes on from another kept sequence, as sluice_restore gives it. No answer is under way.
void SLUICE_EXPORT(sluice_adopt)(sluice::wasm::Instance* instance, uint32_t sequence);

// ---- the engine itself, one request at a time: tokens in, tokens and logits out

// request: {"prompt": tokens, "max_tokens": n, "stop_tokens": tokens, "logits_at", "message_ends": ascending indices
// into the prompt, "media": numbers of the pictures and sounds for which the prompt has a token a row, "sequence": one
// to go on from, "keep_sequence": bool, "adapters" as sluice_begin takes them, "temperature": 0, and further settings
// under their names in engine/sampling_json.h}; all but the prompt may be left out.
int SLUICE_EXPORT(sluice_submit)(sluice::wasm::Instance* instance, const char* request, size_t bytes);
// One turn of the engine. The host calls it until sluice_collect says that the answer is finished. 0: nothing to do; 1:
// the device is still computing; 2: something is new.
int SLUICE_EXPORT(sluice_step)(sluice::wasm::Instance* instance);
// Ends the answer, of the conversation or of the engine, after the step at hand.
void SLUICE_EXPORT(sluice_cancel)(sluice::wasm::Instance* instance);
// Replies {"finish": "running" | "stop_token" | "length" | "cancelled", "sequence", "tokens": those that are new,
// "prompt_tokens", "reused_tokens", "computed_prompt_tokens"}. An answer that fails is over.
int SLUICE_EXPORT(sluice_collect)(sluice::wasm::Instance* instance);
// Replies the new rows of logits as f32, those of the last sluice_collect.
int SLUICE_EXPORT(sluice_logits)(sluice::wasm::Instance* instance);

// ---- an adapter that is trained, while no answer is made (docs/training.md)

// options: {"examples": text, "max_tokens": of an example at most, 2048 without, "learn_all": all tokens, not those of
// answers alone}. Replies {"examples": how many can be learnt, "tokens": of them all, "faults": [a sentence for each
// line that cannot be]}.
int SLUICE_EXPORT(sluice_examples)(sluice::wasm::Instance* instance, const char* options, size_t bytes);
// options: those of sluice_examples, and {"rank": 16, "alpha": 2 x rank, "rate": 2e-4, "warm_up": steps, "steps": at
// most, "epochs": 10, or as many as "steps" need, "batch_tokens": 256 of a step, "part_tokens": 512 of them that are
// computed at once, "seed": 0, "arithmetic": "fast"}; all but the examples may be left out. Lines that cannot be learnt
// are left out. The engine is closed; sluice_load opens it again after the training. Replies {"examples", "steps",
// "tokens": of all steps, "faults"}.
int SLUICE_EXPORT(sluice_train)(sluice::wasm::Instance* instance, const char* options, size_t bytes);
// Goes on. 2: there is more to compute of a step. Replies at the end of each {"finish": "running" | "done" | "stopped",
// "step", "loss": before it, "rate", "gradient_norm", "tokens": of the step}. After a failure the adapter is that of
// the last step.
int SLUICE_EXPORT(sluice_train_on)(sluice::wasm::Instance* instance);
// Gives up the step at hand; sluice_train_on then soon replies "stopped".
void SLUICE_EXPORT(sluice_stop_training)(sluice::wasm::Instance* instance);
// Replies a file of the adapter as it is by now: "adapter_config.json" or "adapter_model.safetensors" of PEFT, or
// "adapter.gguf" for llama.cpp, which fails where that has no form for it.
int SLUICE_EXPORT(sluice_trained)(sluice::wasm::Instance* instance, const char* name, size_t bytes);
// The training's memory is given back.
void SLUICE_EXPORT(sluice_end_training)(sluice::wasm::Instance* instance);

// ---- sequences that were kept

// Replies the sequence's state as the contents of a file. 2: the GPU is bringing it. The host calls again when the GPU
// has done something, and gets the state as of the first call.
int SLUICE_EXPORT(sluice_save)(sluice::wasm::Instance* instance, uint32_t sequence);
// Replies {"sequence", "tokens", "note": what has to be computed again, or nothing}. On a GPU no answer and no state is
// under way.
int SLUICE_EXPORT(sluice_restore)(sluice::wasm::Instance* instance, const void* state, size_t bytes);
// Replies {"prompt_rows", "decode_rows", "steps", "dispatches", "pipelines", "memory": [{"domain", "purpose", "bytes",
// "peak"}], "experts": null, or, where they are read as they are chosen, {"slots", "slot_bytes", "experts": all there
// are, "uses", "misses", "read_bytes"}}.
int SLUICE_EXPORT(sluice_stats)(sluice::wasm::Instance* instance);

}  // extern "C"
