// Readers of packed weights, compiled for each target: what a panel holds, as the vectors that the
// kernels multiply.

#if defined(WEFT_WEIGHTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_WEIGHTS_INL_H
#undef WEFT_WEIGHTS_INL_H
#else
#define WEFT_WEIGHTS_INL_H
#endif

#include <array>

#include "kernels/dot-inl.h"
#include "kernels/panel.h"
#include "kernels/simd.h"

#if WEFT_SIMD_TARGET
WEFT_BEFORE_KERNELS();
namespace weft::HWY_NAMESPACE {
namespace {

template <int kShift>  // right, or left where negative; bits that cross a byte's border are for the
                       // caller to mask
HWY_INLINE U8 shift_bytes(U8 v) {
  const auto wide = hn::BitCast(U16Tag(), v);
  if constexpr (kShift > 0) {
    return hn::BitCast(U8Tag(), hn::ShiftRight<kShift>(wide));
  } else if constexpr (kShift < 0) {
    return hn::BitCast(U8Tag(), hn::ShiftLeft<-kShift>(wide));
  } else {
    return v;
  }
}

HWY_INLINE U8 load_bytes(const std::byte* p) {
  return hn::Load(U8Tag(), reinterpret_cast<const uint8_t*>(p));
}
template <class T>
HWY_INLINE F32 widen_bytes(const std::byte* p) {
  const hn::Rebind<T, F32Tag> d;
  return hn::ConvertTo(F32Tag(),
                       hn::PromoteTo(I32Tag(), hn::LoadU(d, reinterpret_cast<const T*>(p))));
}

// What the kernels need to know of a quantized type.
template <DType kType>
struct Quantized {
  static constexpr QuantFormat kFormat = quant_format(kType);
  static constexpr PanelLayout kLayout = panel_layout(kType);
  // Bits of the operand; the levels of IQ4 need eight, those of MXFP4 five.
  static constexpr int kBits = kFormat.table == nullptr ? kFormat.code_bits
                               : kFormat.offset == 128  ? 8
                                                        : 5;
  static constexpr bool kSigned = kBits == 8 && Dots<8>::kSignedBytes;
  static constexpr int kOffset = kSigned ? 0 : kFormat.offset;
  static constexpr int kGroups = kBlockInputs / kFormat.group;
  static constexpr bool kHasMinimum = kFormat.has_minimum;
};

// The operand of each code of a type with a table, sixteen bytes.
template <DType kType>
constexpr std::array<uint8_t, 16> operand_table() {
  std::array<uint8_t, 16> table{};
  for (size_t i = 0; i < 16; ++i) {
    table[i] = static_cast<uint8_t>(Quantized<kType>::kFormat.table[i] + Quantized<kType>::kOffset);
  }
  return table;
}

// kVectors vectors of outputs, from output `first` on, of a panel. kShares kernels fetch its lines
// together.
template <DType kType, int kVectors_, int kShares = 1>
class PackedReader {
  using Type = Quantized<kType>;
  static constexpr PanelLayout kLayout = Type::kLayout;

 public:
  static constexpr int kVectors = kVectors_;
  static constexpr int kBits = shared_bits(Type::kBits);
  static constexpr bool kHasOffset = Type::kOffset != 0;
  static constexpr int kGroups = Type::kGroups;
  static constexpr bool kHasMinimum = Type::kHasMinimum;
  static constexpr int kSuperBlocks = kLayout.blocks;
  // Cache lines to fetch ahead with each block, in fours.
  static constexpr int kBlockBytes = kLayout.super_bytes() / kLayout.blocks;
  static constexpr int kFetchLines = (kBlockBytes / kShares + 255) / 256 * 4;

  HWY_INLINE PackedReader(const std::byte* panel, int first) : super_(panel), first_(first) {}

  // Begins the super-block at the reader's place.
  HWY_INLINE void enter_super() {
    WEFT_UNROLL for (int v = 0; v < kVectors; ++v) {
      d_[v] = scale_at(super_ + 2 * (first_ + v * kLanes));
      if constexpr (kHasMinimum) {
        dmin_[v] = widen_halves(super_ + 2 * (kPanelOutputs + first_ + v * kLanes));
      }
    }
    block_ = super_ + kLayout.header_bytes;
    scales_ =
        kLayout.scales_in_header ? super_ + kLayout.scales_offset : block_ + kLayout.scales_offset;
  }
  HWY_INLINE void next_block() {
    block_ += kLayout.block_bytes;
    scales_ += kLayout.scales_in_header ? kPanelOutputs : kLayout.block_bytes;
  }
  HWY_INLINE void leave_super() { super_ += kLayout.super_bytes(); }

  template <int kQuad>
  HWY_INLINE U8 quad(int v) const {
    const std::byte* at = block_ + 4 * (first_ + v * kLanes);
    if constexpr (kLayout.low_bits == 8) {
      const U8 w = load_bytes(at + kQuad * kQuadBytes);
      return Type::kSigned ? hn::Xor(w, hn::Set(U8Tag(), 0x80)) : w;
    } else if constexpr (kLayout.low_bits == 4) {
      const U8 both = load_bytes(at + kQuad % 4 * kQuadBytes);
      const U8 low = hn::And(shift_bytes<kQuad / 4 * 4>(both), hn::Set(U8Tag(), 15));
      if constexpr (Type::kFormat.table != nullptr) {
        static constexpr std::array<uint8_t, 16> kTable = operand_table<kType>();
        return hn::TableLookupBytes(hn::LoadDup128(U8Tag(), kTable.data()), low);
      } else {
        return with_high_bits<kQuad>(at, low);
      }
    } else {
      const U8 four = load_bytes(at + kQuad / 4 * kQuadBytes);
      return with_high_bits<kQuad>(at,
                                   hn::And(shift_bytes<kQuad % 4 * 2>(four), hn::Set(U8Tag(), 3)));
    }
  }

  HWY_INLINE F32 scale(int group, int v) const {
    if constexpr (Type::kFormat.has_subscales) {
      return hn::Mul(d_[v],
                     widen_bytes<int8_t>(scales_ + group * kPanelOutputs + first_ + v * kLanes));
    } else {
      return d_[v];
    }
  }
  HWY_INLINE F32 minimum(int group, int v) const {
    if constexpr (Type::kFormat.has_subscales) {
      const std::byte* at = block_ + kLayout.minimums_offset + group * kPanelOutputs;
      return hn::Neg(hn::Mul(dmin_[v], widen_bytes<uint8_t>(at + first_ + v * kLanes)));
    } else {
      return dmin_[v];
    }
  }

 private:
  static HWY_INLINE F32 scale_at(const std::byte* p) {
    if constexpr (kType == DType::kMXFP4) {
      const hn::Rebind<uint16_t, F32Tag> d;
      const auto bits = hn::LoadU(d, reinterpret_cast<const uint16_t*>(p));
      return hn::BitCast(F32Tag(), hn::ShiftLeft<16>(hn::PromoteTo(I32Tag(), bits)));
    } else {
      return widen_halves(p);
    }
  }

  template <int kQuad>
  HWY_INLINE U8 with_high_bits(const std::byte* at, U8 low) const {
    constexpr int kHigh = kLayout.high_bits;
    if constexpr (kHigh == 0) {
      return low;
    } else {
      constexpr int kVector = kHigh == 2 ? kQuad / 4 : 0;
      constexpr int kBit = kHigh == 2 ? kQuad % 4 * 2 : kQuad;
      constexpr auto kMask = static_cast<uint8_t>(((1 << kHigh) - 1) << kLayout.low_bits);
      const U8 high = load_bytes(at + kLayout.high_offset + kVector * kQuadBytes);
      return hn::OrAnd(low, shift_bytes<kBit - kLayout.low_bits>(high), hn::Set(U8Tag(), kMask));
    }
  }

  const std::byte* super_;
  const std::byte* block_ = nullptr;
  const std::byte* scales_ = nullptr;
  int first_;
  F32 d_[kVectors];
  F32 dmin_[kVectors];
};

// A block whose codes were taken apart once for many tiles of rows: operand bytes [quads][32][4],
// then floats: scales [groups][32] and minimums [groups][32].
template <int kBits_, bool kHasOffset_, int kGroups_, bool kHasMinimum_, int kVectors_>
class ExpandedReader {
 public:
  static constexpr int kBits = kBits_;
  static constexpr bool kHasOffset = kHasOffset_;
  static constexpr int kVectors = kVectors_;
  static constexpr int kGroups = kGroups_;
  static constexpr bool kHasMinimum = kHasMinimum_;
  static constexpr int kSuperBlocks = 1;
  static constexpr int kFetchLines = 8;
  static constexpr int kCodeBytes = kBlockQuads * kQuadBytes;
  static constexpr int kScaleBytes = kGroups * kPanelOutputs * 4;
  static constexpr int kBlockBytes = kCodeBytes + (kHasMinimum ? 2 : 1) * kScaleBytes;

  HWY_INLINE ExpandedReader(const std::byte* blocks, int first) : block_(blocks), first_(first) {}
  HWY_INLINE void enter_super() {}
  HWY_INLINE void next_block() {}
  HWY_INLINE void leave_super() { block_ += kBlockBytes; }

  template <int kQuad>
  HWY_INLINE U8 quad(int v) const {
    return load_bytes(block_ + kQuad * kQuadBytes + 4 * (first_ + v * kLanes));
  }
  HWY_INLINE F32 scale(int group, int v) const { return floats(kCodeBytes, group, v); }
  HWY_INLINE F32 minimum(int group, int v) const {
    return floats(kCodeBytes + kScaleBytes, group, v);
  }

 private:
  HWY_INLINE F32 floats(int offset, int group, int v) const {
    const auto* p = reinterpret_cast<const float*>(block_ + offset);
    return hn::Load(F32Tag(), p + group * kPanelOutputs + first_ + v * kLanes);
  }
  const std::byte* block_;
  int first_;
};

// Types share kernels as far as the target's dot products allow.
template <DType kType, int kVectors>
using ExpandedReaderOf =
    ExpandedReader<shared_bits(Quantized<kType>::kBits), Quantized<kType>::kOffset != 0,
                   Quantized<kType>::kGroups, Quantized<kType>::kHasMinimum, kVectors>;

inline constexpr int kMaxExpandedBlockBytes = kBlockQuads * kQuadBytes + 4 * kPanelOutputs * 4;

// Expands `supers` super-blocks of a panel.
template <DType kType>
void expand(const std::byte* panel, int64_t supers, std::byte* out) {
  using Reader = PackedReader<kType, 1>;
  using Expanded = ExpandedReaderOf<kType, 1>;
  for (int first = 0; first < kPanelOutputs; first += kLanes) {
    Reader reader(panel, first);
    std::byte* to = out;
    for (int64_t s = 0; s < supers; ++s) {
      reader.enter_super();
      for (int b = 0; b < Reader::kSuperBlocks; ++b, to += Expanded::kBlockBytes) {
        unroll<kBlockQuads>([&](auto q) WEFT_INLINE_LAMBDA {
          auto* codes = reinterpret_cast<uint8_t*>(to + q * kQuadBytes + 4 * first);
          hn::Store(reader.template quad<q>(0), U8Tag(), codes);
        });
        auto* scales = reinterpret_cast<float*>(to + Expanded::kCodeBytes) + first;
        for (int g = 0; g < Reader::kGroups; ++g, scales += kPanelOutputs) {
          hn::Store(reader.scale(g, 0), F32Tag(), scales);
          if constexpr (Reader::kHasMinimum) {
            hn::Store(reader.minimum(g, 0), F32Tag(), scales + Reader::kGroups * kPanelOutputs);
          }
        }
        reader.next_block();
      }
      reader.leave_super();
    }
  }
}

}  // namespace
}  // namespace weft::HWY_NAMESPACE
WEFT_AFTER_KERNELS();
#endif  // WEFT_SIMD_TARGET

#endif  // WEFT_WEIGHTS_INL_H
