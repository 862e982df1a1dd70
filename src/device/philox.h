#pragma once
// Philox4x32-10 (Salmon et al. 2011): random numbers as a pure function of a key and a counter, so
// that a sample depends on nothing but its request's seed and its place.

#include <array>
#include <cstdint>

namespace weft {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

constexpr PhiloxCounter philox4x32(PhiloxCounter c, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return c;
}

// The number in [0, 1) that draws the token after `position` of a sequence.
constexpr double sampling_uniform(uint64_t seed, uint32_t choice, uint64_t position) {
  const PhiloxCounter bits = philox4x32(
      {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), choice, 0},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const uint64_t mantissa = (uint64_t{bits[0]} << 21) ^ (bits[1] >> 11);  // 53 bits
  return static_cast<double>(mantissa) * 0x1p-53;
}

}  // namespace weft
