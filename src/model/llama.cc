// Llama (Touvron et al. 2023), and what shares its layer: Mistral 7B, SmolLM2, TinyLlama ... With
// experts instead of one feed-forward network it is Mixtral (Jiang et al. 2024).

#include <iterator>

#include "model/architecture.h"

namespace weft {
namespace {

std::vector<Op> feed_forward(LayerBuilder& layer) {
  if (layer.config().experts > 0) {
    // h += sum over the row's experts of p_e W_down_e (silu(W_gate_e norm(h)) * W_up_e norm(h))
    return {
        layer.rms_norm("ffn_norm"),
        layer.router("ffn_gate_inp"),
        layer.experts("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"),
    };
  }
  // h += W_down (silu(W_gate norm(h)) * W_up norm(h))
  return {
      layer.rms_norm("ffn_norm"),
      layer.gate_up("ffn_gate", "ffn_up", Bias::kOptional),
      layer.swiglu(),
      layer.ffn_output("ffn_down", Bias::kOptional),
  };
}

}  // namespace

std::vector<Op> llama_layer(LayerBuilder& layer) {
  const int q = layer.query_width();
  const int kv = layer.kv_width();
  const Bias bias = Bias::kOptional;
  // h += W_o attention(rope(W_q norm(h)), rope(W_k norm(h)), W_v norm(h))
  std::vector<Op> ops = {
      layer.rms_norm("attn_norm"),
      layer.qkv({{"attn_q", q, bias}, {"attn_k", kv, bias}, {"attn_v", kv, bias}}),
      layer.rope(),
      layer.store_kv(),
      layer.attention(),
      layer.attention_output("attn_output", bias),
  };
  const std::vector<Op> rest = feed_forward(layer);
  ops.insert(ops.end(), rest.begin(), rest.end());
  return ops;
}

}  // namespace weft
