// Llama (Touvron et al. 2023), and what shares its layer: Mistral 7B, SmolLM2, TinyLlama ...

#include "model/architecture.h"

namespace weft {

std::vector<Op> llama_layer(LayerBuilder& layer) {
  const int q = layer.query_width();
  const int kv = layer.kv_width();
  const Bias bias = Bias::kOptional;
  return {
      // h += W_o attention(rope(W_q norm(h)), rope(W_k norm(h)), W_v norm(h))
      layer.rms_norm("attn_norm"),
      layer.qkv({{"attn_q", q, bias}, {"attn_k", kv, bias}, {"attn_v", kv, bias}}),
      layer.rope(),
      layer.store_kv(),
      layer.attention(),
      layer.attention_output("attn_output", bias),
      // h += W_down (silu(W_gate norm(h)) * W_up norm(h))
      layer.rms_norm("ffn_norm"),
      layer.gate_up("ffn_gate", "ffn_up", bias),
      layer.swiglu(),
      layer.ffn_output("ffn_down", bias),
  };
}

}  // namespace weft
