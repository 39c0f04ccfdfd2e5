// Every bound on what a file may hold, in one place. They stand far above any real model and far below what would
// exhaust the machine; a file beyond one is refused with a sentence that names it.
#pragma once

#include <cstdint>

namespace sluice {

// Containers
inline constexpr uint64_t kMaxTensors = 1u << 20;
inline constexpr uint64_t kMaxKeys = 1u << 16;
inline constexpr uint64_t kMaxStringBytes = 1u << 30;      // of GGUF metadata
inline constexpr uint64_t kMaxArrayElements = 1u << 26;    // of GGUF metadata
inline constexpr uint64_t kMaxGgufHeaderBytes = 1u << 30;  // keys and tensor infos
inline constexpr uint32_t kMaxDimensions = 8;              // of a safetensors tensor
inline constexpr uint32_t kMaxGgufDimensions = 4;          // of a GGUF tensor
inline constexpr uint64_t kMaxGgufNameBytes = 63;          // of a GGUF tensor's name
inline constexpr uint64_t kMaxHeaderBytes = 100000000;     // of a safetensors header
inline constexpr uint64_t kMaxShards = 10000;              // files of one checkpoint
inline constexpr uint64_t kMaxDocumentBytes = 1u << 28;    // of one JSON or text file beside the weights
inline constexpr uint64_t kMaxStoreTextBytes = 1u << 24;   // of a manifest, prompt or template in Ollama's store

// Models
inline constexpr uint32_t kMaxLayers = 512;
inline constexpr uint32_t kMaxExperts = 1024;
inline constexpr uint32_t kMaxVocabulary = 1u << 24;
inline constexpr uint32_t kMaxWidth = 1u << 20;    // of the residual stream and of a feed-forward layer
inline constexpr uint32_t kMaxHeads = 1u << 12;    // of a layer
inline constexpr uint32_t kMaxHeadDim = 1u << 14;  // elements of a head
inline constexpr uint32_t kMaxContext = 1u << 28;  // positions

// Programs
inline constexpr uint64_t kMaxColumns = uint64_t{1} << 24;         // elements of a row of a value or a weight
inline constexpr uint64_t kMaxWeightElements = uint64_t{1} << 48;  // of all experts together

// Text
inline constexpr uint64_t kMaxScoredTokenBytes = 1024;  // of a token merged by score, whose every cut is looked up

}  // namespace sluice
