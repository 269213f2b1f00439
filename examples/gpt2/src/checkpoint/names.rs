use crate::Gpt2Config;

/// What Hugging Face puts before the names of all tensors but the head.
pub(crate) const PREFIX: &str = "transformer.";
/// The output head, where it has a tensor of its own.
pub(crate) const HEAD: &str = "lm_head.weight";

/// The parts of a sparse matrix, after its name and a point.
pub(crate) const VALUES: &str = "values";
pub(crate) const ROW_OFFSETS: &str = "row_offsets";
pub(crate) const COL_INDICES: &str = "col_indices";
pub(crate) const SHAPE: &str = "shape";

/// The two MLP matrices of a block: name and `[d_input, d_output]`.
pub(crate) fn mlp_matrices(config: &Gpt2Config, block: usize) -> [(String, [usize; 2]); 2] {
    let (width, inner) = (config.width, config.inner());
    let [fc, proj] = mlp_names(block);
    [(fc, [width, inner]), (proj, [inner, width])]
}

/// The names of the two MLP matrices of a block.
pub(crate) fn mlp_names(block: usize) -> [String; 2] {
    ["c_fc", "c_proj"].map(|layer| format!("h.{block}.mlp.{layer}.weight"))
}

/// All tensors but the MLP matrices, without [`PREFIX`], in the order of the model.
pub(crate) fn dense_tensors(config: &Gpt2Config) -> Vec<String> {
    let mut names = vec!["wte.weight".to_string(), "wpe.weight".to_string()];
    for block in 0..config.layers {
        let of_block = [
            "ln_1.weight",
            "ln_1.bias",
            "attn.c_attn.weight",
            "attn.c_attn.bias",
            "attn.c_proj.weight",
            "attn.c_proj.bias",
            "ln_2.weight",
            "ln_2.bias",
            "mlp.c_fc.bias",
            "mlp.c_proj.bias",
        ];
        names.extend(of_block.map(|name| format!("h.{block}.{name}")));
    }
    names.extend(["ln_f.weight".to_string(), "ln_f.bias".to_string()]);
    names
}

/// Whether a tensor is one of the attention masks that old files hold beside the weights:
/// `h.N.attn.bias` and `h.N.attn.masked_bias`.
pub(crate) fn is_mask_buffer(name: &str) -> bool {
    let block = name.strip_prefix("h.").and_then(|rest| {
        rest.strip_suffix(".attn.bias")
            .or_else(|| rest.strip_suffix(".attn.masked_bias"))
    });
    block.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_told_from_biases() {
        assert!(is_mask_buffer("h.0.attn.bias"));
        assert!(is_mask_buffer("h.11.attn.masked_bias"));
        assert!(!is_mask_buffer("h.0.attn.c_attn.bias"));
        assert!(!is_mask_buffer("h..attn.bias"));
        assert!(!is_mask_buffer("attn.bias"));
    }
}
