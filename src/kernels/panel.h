#pragma once
// How the SIMD tables lay out weights: the same bytes on every instruction set.
//
// A panel is 32 outputs; inputs come in steps of four, a quad. A vector register holds one quad of
// as many outputs as it has 32-bit lanes, so a lane is an output and a dot product of bytes needs
// no shuffle. A quantized panel is one stream of super-blocks, each a header (scales of the
// super-block, [32] each) and one or eight blocks of 32 inputs:
//
//   low plane   [quads of a plane][32 outputs][4 inputs]  bytes that each hold the same bits of 1,
//   2 or 4 quads high plane  the same, for what does not fit: the fifth bit, or the fifth and sixth
//   scales      [groups][32], minimums [groups][32]       bytes, where the type has sub-scales
//
// Nothing is widened: a 4-bit code stays 4 bits. Float panels are [inputs][32], BF16 pairs inputs:
// [inputs / 2][32][2]; of 16-bit floats there is an even number of inputs, the last one zero.

#include <cstddef>
#include <cstdint>

#include "kernels/ref/quant_blocks.h"
#include "tensor/dtype.h"

namespace weft {

inline constexpr int kPanelOutputs = 32;
inline constexpr int kBlockInputs = 32;
inline constexpr int kBlockQuads = kBlockInputs / 4;
inline constexpr int kQuadBytes = 4 * kPanelOutputs;

// Where the parts of a quantized panel lie. Offsets in bytes, from the super-block or from the
// block.
struct PanelLayout {
  int blocks = 0;  // in a super-block: 1 or 8
  int header_bytes =
      0;  // d [32] halves, dmin [32] halves, then for IQ4_XS the scales of all blocks [8][32]
  int block_bytes = 0;
  int low_bits = 0;   // in the low plane: 2, 4 or 8
  int high_bits = 0;  // in the high plane: 0, 1 or 2
  int high_offset = 0;
  int scales_offset = 0;  // from the block; for IQ4_XS from the super-block
  int minimums_offset = 0;
  bool scales_in_header = false;

  constexpr int super_bytes() const { return header_bytes + blocks * block_bytes; }
};

constexpr PanelLayout panel_layout(DType type) {
  const QuantFormat format = quant_format(type);
  PanelLayout layout;
  layout.blocks = format.has_subscales ? 8 : 1;
  layout.low_bits = format.code_bits == 8 ? 8 : format.code_bits >= 4 ? 4 : 2;
  layout.high_bits = format.code_bits - layout.low_bits;
  layout.header_bytes = (format.has_minimum ? 2 : 1) * kPanelOutputs * 2;
  layout.high_offset = layout.low_bits * kQuadBytes;
  layout.block_bytes = format.code_bits * kQuadBytes;
  if (!format.has_subscales) return layout;
  const int groups = kBlockInputs / format.group;
  layout.scales_in_header =
      groups == 1 && !format.has_minimum;  // else a block would end within a cache line
  if (layout.scales_in_header) {
    layout.scales_offset = layout.header_bytes;
    layout.header_bytes += layout.blocks * kPanelOutputs;
    return layout;
  }
  layout.scales_offset = layout.block_bytes;
  layout.minimums_offset = layout.scales_offset + groups * kPanelOutputs;
  layout.block_bytes += (format.has_minimum ? 2 : 1) * groups * kPanelOutputs;
  return layout;
}

int64_t panel_bytes(DType type, int64_t inputs);
inline int64_t panel_count(int64_t outputs) {
  return (outputs + kPanelOutputs - 1) / kPanelOutputs;
}

// KernelTable::packed_bytes, pack and unpack_row of the SIMD tables.
int64_t packed_panels_bytes(DType type, int64_t outputs, int64_t inputs);
void pack_panels(DType type, const std::byte* rows, int64_t outputs, int64_t inputs,
                 int64_t panel_begin, int64_t panel_end, std::byte* packed);
// Row `row` of a packed matrix with `inputs` inputs: out [inputs], the values dequantize() gives.
void unpack_panel_row(DType type, const std::byte* packed, int64_t inputs, int64_t row, float* out);

}  // namespace weft
