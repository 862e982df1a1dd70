#pragma once
// Structs in global memory, as a program reads and writes them: word by word through the scalar
// cache, whose lines are dropped before and written back afterwards.

#include <cstdint>

#include "descriptor.h"
#include "kernel_operator.h"

namespace weft_ascend {

constexpr int32_t kLineBytes = 64;  // of the scalar cache
constexpr int32_t kLineWords = kLineBytes / 4;

__aicore__ inline GM_ADDR Pointer(GmAddress address) { return reinterpret_cast<GM_ADDR>(address); }

__aicore__ inline void RefreshLine(const AscendC::GlobalTensor<uint32_t>& line) {
  AscendC::DataCacheCleanAndInvalid<uint32_t, AscendC::CacheLine::SINGLE_CACHE_LINE,
                                    AscendC::DcciDst::CACHELINE_OUT>(line);
}

// T is a plain struct of whole words; `from` a multiple of 4. What others have written there, and
// this program has waited for, is seen.
template <class T>
__aicore__ inline void ReadStruct(GM_ADDR from, T& to) {
  static_assert(sizeof(T) % 4 == 0, "made of words");
  AscendC::GlobalTensor<uint32_t> words;
  words.SetGlobalBuffer(reinterpret_cast<__gm__ uint32_t*>(from));
  const int32_t first = static_cast<int32_t>(reinterpret_cast<GmAddress>(from) % kLineBytes / 4);
  char* bytes = reinterpret_cast<char*>(&to);
  for (int32_t i = 0; i < static_cast<int32_t>(sizeof(T) / 4); ++i) {
    if (i == 0 || (first + i) % kLineWords == 0) RefreshLine(words[i]);
    const uint32_t word = words.GetValue(i);
    __builtin_memcpy(bytes + 4 * i, &word, 4);
  }
}

// `to` is a multiple of a line, and no other program writes to the lines that T reaches into.
template <class T>
__aicore__ inline void WriteStruct(const T& from, GM_ADDR to) {
  static_assert(sizeof(T) % 4 == 0, "made of words");
  AscendC::GlobalTensor<uint32_t> words;
  words.SetGlobalBuffer(reinterpret_cast<__gm__ uint32_t*>(to));
  const char* bytes = reinterpret_cast<const char*>(&from);
  const int32_t count = static_cast<int32_t>(sizeof(T) / 4);
  for (int32_t i = 0; i < count; ++i) {
    uint32_t word = 0;
    __builtin_memcpy(&word, bytes + 4 * i, 4);
    words.SetValue(i, word);
    if ((i + 1) % kLineWords == 0 || i + 1 == count) RefreshLine(words[i]);
  }
  AscendC::DataSyncBarrier<AscendC::MemDsbT::DDR>();
}

}  // namespace weft_ascend
