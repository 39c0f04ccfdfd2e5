// Every limit on the contents of a file, in one place. A limit is far above any real model and far below what would
// exhaust the machine. A file that exceeds a limit is refused with a sentence that names the limit.
#pragma once

#include <cstdint>

namespace sluice {

// Containers
inline constexpr uint64_t kMaxTensors = 1u << 20;
inline constexpr uint64_t kMaxKeys = 1u << 16;
inline constexpr uint64_t kMaxGgufStrings = 1u << 22;      // in all arrays of a file; an empty one takes 32 bytes
inline constexpr uint64_t kMaxArrayElements = 1u << 26;    // of GGUF metadata
inline constexpr uint64_t kMaxGgufHeaderBytes = 1u << 28;  // keys and tensor infos
inline constexpr uint32_t kMaxDimensions = 8;              // of a safetensors tensor
inline constexpr uint32_t kMaxGgufDimensions = 4;          // of a GGUF tensor
inline constexpr uint64_t kMaxGgufNameBytes = 63;          // of a GGUF tensor's name
inline constexpr uint64_t kMaxHeaderBytes = 100000000;     // of a safetensors header
inline constexpr uint64_t kMaxShards = 10000;              // files of one checkpoint
inline constexpr uint64_t kMaxDocumentBytes = 1u << 28;    // of one JSON or text file beside the weights
inline constexpr uint64_t kMaxStoreTextBytes = 1u << 24;   // of a manifest, prompt or template in Ollama's store
inline constexpr int kMaxFolderDepth = 3;                  // of folders in a repository; links may form a loop
inline constexpr uint64_t kMaxTrainingBytes = uint64_t{1} << 32;  // of a file of examples

// Models
inline constexpr uint32_t kMaxLayers = 512;
inline constexpr uint32_t kMaxExperts = 1024;
inline constexpr uint32_t kMaxClusters = 4096;  // of a vocabulary: clustered_logits
inline constexpr uint32_t kMaxVocabulary = 1u << 24;
inline constexpr uint32_t kMaxWidth = 1u << 20;         // of the residual stream and of a feed-forward layer
inline constexpr uint32_t kMaxHeads = 1u << 12;         // of a layer
inline constexpr uint32_t kMaxHeadDim = 1u << 14;       // elements of a head
inline constexpr uint32_t kMaxContext = 1u << 28;       // positions
inline constexpr uint64_t kMaxListedTokens = 1u << 14;  // tokens that end an answer, or are never sampled

// Programs
inline constexpr uint64_t kMaxColumns = uint64_t{1} << 24;         // elements of a row of a value or a weight
inline constexpr uint64_t kMaxWeightElements = uint64_t{1} << 48;  // of all experts together

// Towers
inline constexpr uint32_t kMaxTowerRows = 4096;          // that one picture or sound gives the text
inline constexpr uint32_t kMaxPatchSide = 256;           // pixels of a patch, and patches of a row's block
inline constexpr uint32_t kMaxPatchPositions = 1 << 20;  // in each direction

// Text
inline constexpr uint64_t kMaxScoredTokenBytes = 1024;  // of a token merged by score; every cut of it is looked up
inline constexpr int kMaxJsonDepth = 128;               // nested lists and objects

// Chat templates: far above what a conversation of a million tokens needs
inline constexpr uint64_t kMaxTemplateBytes = 1u << 18;    // the parsed tree takes up to a hundred times as much
inline constexpr uint64_t kMaxTemplateSteps = 16'000'000;  // nodes evaluated, items and every 16 bytes looked at
inline constexpr uint64_t kTemplateStepBytes = 16;
inline constexpr uint64_t kMaxTemplateMemoryBytes = 128'000'000;  // at a time
inline constexpr uint64_t kMaxTemplateTextBytes = 16'000'000;     // of each text and of what is printed
inline constexpr int kMaxTemplateHeight = 100;                    // nested expressions and blocks in the text
inline constexpr int kMaxTemplateDepth =
    400;  // the same at run time, with macro calls; a schema of 30 levels takes 260
inline constexpr int kMaxTemplateNesting = 200;        // nested containers; recursion over a value goes as deep
inline constexpr uint64_t kMaxTemplateRange = 100000;  // numbers of range(): the limit of jinja2's sandbox
inline constexpr int64_t kMaxFormatWidth = 1'000'000;  // of '%9d' and the like
inline constexpr int64_t kMaxFormatPrecision = 400;    // more digits than a double has

// Pictures and sounds
inline constexpr uint64_t kMaxMediaBytes = 1u << 28;     // of a file
inline constexpr uint32_t kMaxPictureSide = 65535;       // pixels; the most that JPEG and GIF can say
inline constexpr uint64_t kMaxPicturePixels = 1u << 26;  // a decoder takes up to 15 bytes for each
inline constexpr int kMaxPictureScans = 100;             // of a progressive JPEG; each goes over the whole picture
inline constexpr uint32_t kMaxSoundSeconds = 600;
inline constexpr uint32_t kMaxFilmSeconds = 7200;
inline constexpr uint32_t kMaxFilmFrames = 4096;  // that a model looks at
inline constexpr uint32_t kMaxSoundChannels = 8;
inline constexpr uint32_t kMinSoundRate = 1000;  // samples a second
inline constexpr uint32_t kMaxSoundRate = 192000;

// Saved sequences
inline constexpr uint32_t kMaxSavedNameBytes = 4096;  // of the model's digest and the numerics id
inline constexpr uint32_t kMaxSavedGroups = 64;       // of pages

}  // namespace sluice
