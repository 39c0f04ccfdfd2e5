// What the page's module exports (docs/architecture.md, "The page's module"). The host is JavaScript with one thread.
//
// Addresses and sizes are 32-bit numbers of the module's memory; texts are UTF-8, of which the caller says how many
// bytes. Every call that can fail returns 1, or 0 for failure; sluice_reply() and sluice_reply_bytes() then give its
// answer, or the sentence that says why it has none. They stand until the next call.
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
// A file that sluice_open may name or find in a folder. The block must come from sluice_allocate and is the module's
// from now on; a file of that name is replaced.
void SLUICE_EXPORT(sluice_add_file)(const char* path, size_t path_bytes, void* bytes, size_t size);
void SLUICE_EXPORT(sluice_remove_file)(const char* path, size_t path_bytes);

const void* SLUICE_EXPORT(sluice_reply)();
size_t SLUICE_EXPORT(sluice_reply_bytes)();

// ---- a model

// options: {"model": path, "arithmetic": "fast" | "exact", "cache": "f32" | "f16" | "bf16", "device": "cpu" |
// "reference", "context": positions}; all but the model may be left out. null for failure. Replies {"name",
// "numerics_id", "vocabulary", "context"}.
sluice::wasm::Instance* SLUICE_EXPORT(sluice_open)(const char* options, size_t bytes);
void SLUICE_EXPORT(sluice_close)(sluice::wasm::Instance* instance);

// ---- text

// Replies tokens as i32. Control tokens in the text become those tokens; none are added.
int SLUICE_EXPORT(sluice_encode)(sluice::wasm::Instance* instance, const char* text, size_t bytes);
// Replies text.
int SLUICE_EXPORT(sluice_decode)(sluice::wasm::Instance* instance, const int32_t* tokens, size_t count);
// chat: {"messages": [...], "extra": {...}}, the latter for further variables of the template. Replies text.
int SLUICE_EXPORT(sluice_render)(sluice::wasm::Instance* instance, const char* chat, size_t bytes);

// ---- answers, one at a time

// request: {"prompt": tokens, "max_tokens": n, "logits_at": ascending indices into the prompt, "temperature": 0,
// "seed": 0}; all but the prompt may be left out.
int SLUICE_EXPORT(sluice_submit)(sluice::wasm::Instance* instance, const char* request, size_t bytes);
// One turn of the engine; the host calls it until sluice_collect says that the answer is finished.
void SLUICE_EXPORT(sluice_step)(sluice::wasm::Instance* instance);
// Replies {"finished": bool, "tokens": those that are new}.
int SLUICE_EXPORT(sluice_collect)(sluice::wasm::Instance* instance);
// Replies the new rows of logits as f32, those of the last sluice_collect.
int SLUICE_EXPORT(sluice_logits)(sluice::wasm::Instance* instance);

}  // extern "C"
