#include "kernels/panel.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/ref/dequantize.h"

namespace weft {
namespace {

uint32_t load_u32(const void* p) {
  uint32_t value = 0;
  std::memcpy(&value, p, 4);
  return value;
}
void store_u32(void* p, uint32_t value) { std::memcpy(p, &value, 4); }
void store_u16(std::byte* p, uint16_t value) { std::memcpy(p, &value, 2); }
uint16_t load_u16(const std::byte* p) {
  uint16_t value = 0;
  std::memcpy(&value, p, 2);
  return value;
}

// A value of `bits` bits in each of the four bytes.
constexpr uint32_t byte_mask(int bits) { return ((1U << bits) - 1U) * 0x01010101U; }

// Quads of a plane that holds `bits` bits of each code: quad q lies in plane vector q_vector at bit
// q_shift. Four-bit planes pair quads q and q + 4; the others hold consecutive quads, so 16 inputs
// never share a byte with the next 16.
constexpr int q_vector(int bits, int q) {
  return bits == 8 ? q : bits == 4 ? q % 4 : bits == 2 ? q / 4 : 0;
}
constexpr int q_shift(int bits, int q) {
  return bits == 8 ? 0 : bits == 4 ? q / 4 * 4 : bits == 2 ? q % 4 * 2 : q;
}

// Every vector of the plane is whole once its quads are put together: nothing is read back.
template <int kBits, int kFromBit>
void put_plane(const uint8_t* codes, int output, std::byte* plane) {
  std::array<uint32_t, kBits> vectors{};
  for (int q = 0; q < kBlockQuads; ++q) {
    const uint32_t part = (load_u32(codes + 4 * q) >> kFromBit) & byte_mask(kBits);
    vectors[static_cast<size_t>(q_vector(kBits, q))] |= part << q_shift(kBits, q);
  }
  for (size_t v = 0; v < vectors.size(); ++v) {
    store_u32(plane + static_cast<int64_t>(v) * kQuadBytes + 4 * output, vectors[v]);
  }
}

void take_plane(int bits, int from_bit, const std::byte* plane, int output, uint8_t* codes) {
  for (int q = 0; q < kBlockQuads; ++q) {
    const std::byte* at = plane + q_vector(bits, q) * kQuadBytes + 4 * output;
    const uint32_t part = (load_u32(at) >> q_shift(bits, q)) & byte_mask(bits);
    store_u32(codes + 4 * q, load_u32(codes + 4 * q) | (part << from_bit));
  }
}

// Calls visit(where a byte of a sub-scale lies, its group, whether it is a minimum) for all of one
// output.
template <class Visit>
void for_each_subscale(const QuantFormat& format, const PanelLayout& layout, int output,
                       Visit&& visit) {
  const int groups = kBlockInputs / format.group;
  for (int b = 0; b < layout.blocks; ++b) {
    for (int g = 0; g < groups; ++g) {
      const size_t group =
          static_cast<size_t>(b) * static_cast<size_t>(groups) + static_cast<size_t>(g);
      const int64_t block = layout.header_bytes + b * layout.block_bytes;
      const int64_t in_block = block + layout.scales_offset + g * kPanelOutputs + output;
      const int64_t in_header = layout.scales_offset + b * kPanelOutputs + output;
      visit(layout.scales_in_header ? in_header : in_block, group, false);
      if (format.has_minimum)
        visit(block + layout.minimums_offset + g * kPanelOutputs + output, group, true);
    }
  }
}

template <DType kType>
void put_block(const QuantBlock& block, int output, std::byte* super) {
  constexpr QuantFormat kFormat = quant_format(kType);
  constexpr PanelLayout kLayout = panel_layout(kType);
  store_u16(super + 2 * output, block.d);
  if (kFormat.has_minimum) store_u16(super + 2 * (kPanelOutputs + output), block.dmin);
  for (int b = 0; b < kLayout.blocks; ++b) {
    std::byte* at = super + kLayout.header_bytes + b * kLayout.block_bytes;
    const uint8_t* codes = block.codes.data() + b * kBlockInputs;
    put_plane<kLayout.low_bits, 0>(codes, output, at);
    if constexpr (kLayout.high_bits > 0) {
      put_plane<kLayout.high_bits, kLayout.low_bits>(codes, output, at + kLayout.high_offset);
    }
  }
  if (!kFormat.has_subscales) return;
  for_each_subscale(kFormat, kLayout, output, [&](int64_t at, size_t group, bool minimum) {
    super[at] = static_cast<std::byte>(minimum ? block.minimums[group] : block.scales[group]);
  });
}

void take_block(DType type, const std::byte* super, int output, QuantBlock& block) {
  const QuantFormat format = quant_format(type);
  const PanelLayout layout = panel_layout(type);
  block.d = load_u16(super + 2 * output);
  if (format.has_minimum) block.dmin = load_u16(super + 2 * (kPanelOutputs + output));
  block.codes.fill(0);
  for (int b = 0; b < layout.blocks; ++b) {
    const std::byte* at = super + layout.header_bytes + b * layout.block_bytes;
    uint8_t* codes = block.codes.data() + b * kBlockInputs;
    take_plane(layout.low_bits, 0, at, output, codes);
    if (layout.high_bits > 0)
      take_plane(layout.high_bits, layout.low_bits, at + layout.high_offset, output, codes);
  }
  if (!format.has_subscales) return;
  for_each_subscale(format, layout, output, [&](int64_t at, size_t group, bool minimum) {
    if (minimum) {
      block.minimums[group] = static_cast<uint8_t>(super[at]);
    } else {
      block.scales[group] = static_cast<int8_t>(super[at]);
    }
  });
}

// Place of one value of a float panel, in values.
int64_t float_place(DType type, int64_t input, int64_t output) {
  if (type == DType::kBF16) return input / 2 * 2 * kPanelOutputs + 2 * output + input % 2;
  return input * kPanelOutputs + output;
}

void pack_float_panel(DType type, const std::byte* rows, int64_t outputs, int64_t inputs,
                      std::byte* panel) {
  const int64_t size = dtype_info(type).block_bytes;
  for (int64_t i = 0; i < inputs; ++i) {
    for (int64_t o = 0; o < outputs; ++o) {
      std::memcpy(panel + float_place(type, i, o) * size, rows + (o * inputs + i) * size,
                  static_cast<size_t>(size));
    }
  }
}

template <DType kType>
void pack_quantized_panel(const std::byte* rows, int64_t outputs, int64_t inputs,
                          std::byte* panel) {
  const DTypeInfo& info = dtype_info(kType);
  constexpr int64_t kSuperBytes = panel_layout(kType).super_bytes();
  const int64_t row_size = row_bytes(kType, inputs);
  const int64_t supers = inputs / info.block_elems;
  QuantBlock block;
  for (int64_t s = 0; s < supers; ++s) {
    for (int64_t o = 0; o < outputs; ++o) {
      split_block(kType, rows + o * row_size + s * info.block_bytes, block);
      put_block<kType>(block, static_cast<int>(o), panel + s * kSuperBytes);
    }
  }
}

void pack_panel(DType type, const std::byte* rows, int64_t outputs, int64_t inputs,
                std::byte* panel) {
#define WEFT_PACK_CASE(type) \
  case type:                 \
    return pack_quantized_panel<type>(rows, outputs, inputs, panel)
  switch (type) {
    WEFT_PACK_CASE(DType::kQ4_0);
    WEFT_PACK_CASE(DType::kQ4_1);
    WEFT_PACK_CASE(DType::kQ5_0);
    WEFT_PACK_CASE(DType::kQ5_1);
    WEFT_PACK_CASE(DType::kQ8_0);
    WEFT_PACK_CASE(DType::kQ2_K);
    WEFT_PACK_CASE(DType::kQ3_K);
    WEFT_PACK_CASE(DType::kQ4_K);
    WEFT_PACK_CASE(DType::kQ5_K);
    WEFT_PACK_CASE(DType::kQ6_K);
    WEFT_PACK_CASE(DType::kIQ4_NL);
    WEFT_PACK_CASE(DType::kIQ4_XS);
    WEFT_PACK_CASE(DType::kMXFP4);
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return pack_float_panel(type, rows, outputs, inputs, panel);
  }
#undef WEFT_PACK_CASE
}

}  // namespace

int64_t panel_bytes(DType type, int64_t inputs) {
  if (is_quantized(type))
    return inputs / dtype_info(type).block_elems * panel_layout(type).super_bytes();
  const int64_t padded = type == DType::kF32 ? inputs : (inputs + 1) / 2 * 2;
  return padded * kPanelOutputs * dtype_info(type).block_bytes;
}

int64_t packed_panels_bytes(DType type, int64_t outputs, int64_t inputs) {
  return panel_count(outputs) * panel_bytes(type, inputs);
}

void pack_panels(DType type, const std::byte* rows, int64_t outputs, int64_t inputs,
                 int64_t panel_begin, int64_t panel_end, std::byte* packed) {
  const int64_t bytes = panel_bytes(type, inputs);
  const int64_t row_size = row_bytes(type, inputs);
  for (int64_t p = panel_begin; p < panel_end; ++p) {
    const int64_t first = p * kPanelOutputs;
    const int64_t count = std::min<int64_t>(kPanelOutputs, outputs - first);
    std::byte* panel = packed + p * bytes;
    // What no row fills has to be zero: outputs of the last panel, the second of an odd pair.
    if (count < kPanelOutputs || !is_quantized(type)) {
      std::memset(panel, 0, static_cast<size_t>(bytes));
    }
    pack_panel(type, rows + first * row_size, count, inputs, panel);
  }
}

void unpack_panel_row(DType type, const std::byte* packed, int64_t inputs, int64_t row,
                      float* out) {
  const std::byte* panel = packed + row / kPanelOutputs * panel_bytes(type, inputs);
  const auto output = static_cast<int>(row % kPanelOutputs);
  const DTypeInfo& info = dtype_info(type);
  if (!is_quantized(type)) {
    for (int64_t i = 0; i < inputs; ++i) {
      dequantize(type, panel + float_place(type, i, output) * info.block_bytes, 1, out + i);
    }
    return;
  }
  QuantBlock block;
  for (int64_t i = 0; i < inputs;
       i += info.block_elems, panel += panel_layout(type).super_bytes()) {
    take_block(type, panel, output, block);
    block_values(type, block, out + i);
  }
}

}  // namespace weft
