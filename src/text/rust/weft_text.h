// Tokenizers and chat templates of the Rust library weft-text, as C sees them.
//
// Strings carry their length and may hold any byte. A function that can fail returns a weft_status;
// its message is empty when the code is WEFT_OK. Handles are immutable after creation, so any
// thread may use them, but freed once. No panic leaves the library: it becomes WEFT_INTERNAL.
#pragma once

#include <stdbool.h>  // NOLINT(modernize-deprecated-headers): also read by C
#include <stddef.h>   // NOLINT(modernize-deprecated-headers)
#include <stdint.h>   // NOLINT(modernize-deprecated-headers)

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_tokenizer weft_tokenizer;
typedef struct weft_template weft_template;

// Borrowed: the owner is named where one is returned. `data` may be null where `size` is 0.
typedef struct {
  const char* data;
  size_t size;
} weft_slice;

// Owned by the library: give it back with weft_string_free, also when it is empty.
typedef struct {
  char* data;
  size_t size;
} weft_string;

typedef struct {
  int32_t* data;
  size_t size;
} weft_ids;  // weft_ids_free

enum { WEFT_OK = 0, WEFT_INVALID = 1, WEFT_UNSUPPORTED = 2, WEFT_INTERNAL = 3 };

typedef struct {
  int32_t code;
  weft_string message;  // one line, to be freed whatever the code
} weft_status;

// What an id stands for; the numbers are those of tokenizer.ggml.token_type.
enum {
  WEFT_NORMAL = 1,
  WEFT_UNKNOWN = 2,
  WEFT_CONTROL = 3,
  WEFT_USER_DEFINED = 4,
  WEFT_UNUSED = 5,
  WEFT_BYTE = 6,
};

enum { WEFT_SPLIT_GPT2 = 0, WEFT_SPLIT_SMOLLM = 1, WEFT_SPLIT_QWEN2 = 2, WEFT_SPLIT_LLAMA3 = 3 };

// Byte-level BPE. texts and kinds: [count]; the texts differ from each other. merges: [merge_count,
// 2] ids, the best first; the text of each pair joined is in the vocabulary. whole_words: a word of
// the vocabulary is taken as it is, whatever the merges say.
typedef struct {
  const weft_slice* texts;
  const uint8_t* kinds;
  size_t count;
  const int32_t* merges;
  size_t merge_count;
  int32_t split;
  bool whole_words;
} weft_bpe_spec;

// SentencePiece BPE. scores: [count]; the pair whose joined text scores highest merges first.
// unknown: an id, or -1. space_prefix: a space is put before the text and after each special token.
typedef struct {
  const weft_slice* texts;
  const uint8_t* kinds;
  const float* scores;
  size_t count;
  int32_t unknown;
  bool space_prefix;
} weft_spm_spec;

enum { WEFT_STYLE_BYTE_LEVEL = 0, WEFT_STYLE_SENTENCEPIECE = 1 };

// How the ids of a tokenizer.json become text, and what it puts around one.
typedef struct {
  int32_t style;
  bool drops_first_space;  // of a text
  bool drops_space_after_special;
  int32_t bos;   // the id its post-processor puts in front, or -1
  size_t count;  // ids are below it; ids without a token have an empty text
} weft_json_traits;

weft_status weft_bpe_create(const weft_bpe_spec* spec, weft_tokenizer** out);
weft_status weft_spm_create(const weft_spm_spec* spec, weft_tokenizer** out);
weft_status weft_json_create(weft_slice json, weft_tokenizer** out, weft_json_traits* traits);
void weft_tokenizer_free(weft_tokenizer* tokenizer);

// Of a tokenizer.json: one id's text, which lives as long as the tokenizer, and its kind.
weft_slice weft_json_token(const weft_tokenizer* tokenizer, int32_t id, uint8_t* kind);

// parse_special: control tokens are recognised in the text; user-defined ones always are.
weft_status weft_encode(const weft_tokenizer* tokenizer, weft_slice text, bool parse_special,
                        weft_ids* out);

weft_status weft_template_create(weft_slice source, weft_template** out);
void weft_template_free(weft_template* compiled);

// messages: a JSON array; extra: a JSON object of further variables, which may replace any of ours
// but messages.
typedef struct {
  weft_slice messages;
  weft_slice extra;
  weft_slice bos_token;
  weft_slice eos_token;
  bool add_generation_prompt;
} weft_render_input;
weft_status weft_template_render(const weft_template* compiled, const weft_render_input* input,
                                 weft_string* out);

void weft_string_free(weft_string string);
void weft_ids_free(weft_ids ids);

#ifdef __cplusplus
}
#endif
