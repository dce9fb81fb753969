"""Tiny models of Hugging Face transformers with random weights."""

import pytest
from kernel_helpers import cases, torch

SIZES = {"vocab_size": 64, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "head_dim": 32,
         "pad_token_id": 0}
DENSE = ["Llama", "Qwen3", "Phi3", "Gemma2"]
SPARSE = {"Mixtral": {"num_local_experts": 8}, "GptOss": {"num_local_experts": 8, "num_experts_per_tok": 2},
          "Qwen3Moe": {"num_experts": 8, "moe_intermediate_size": 32, "num_experts_per_tok": 2},
          "DeepseekV3": {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1,
                         "moe_intermediate_size": 32, "q_lora_rank": 32, "kv_lora_rank": 32, "qk_rope_head_dim": 16,
                         "qk_nope_head_dim": 32, "v_head_dim": 32, "first_k_dense_replace": 1, "head_dim": 16,
                         "num_key_value_heads": 4}}
# Gemma 2 caps scores and GPT-OSS has sinks, which torch's function does not.
ATTENTION = {"Gemma2": "eager", "GptOss": "eager"}


def chosen(quick, names):
    """The models of a test: the quick ones, and with FLYDSL_KERNELS_FULL all of them."""
    return cases(quick, [name for name in names if name not in quick])


def made(name, **options):
    """A model, and tokens (32, 9). Weights of norms are random too: they are all one where nobody trained them."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**(SIZES | SPARSE.get(name, {}) | options))
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    with torch.no_grad():
        for where, weight in model.named_parameters():
            if "norm" in where:
                weight.add_(torch.randn_like(weight) * 0.2)
    return model, torch.randint(1, 64, (32, 9))
