use crate::{Gpt2Error, Tokenizer};

/// The tokenizer of a model with so many tokens.
///
/// # Errors
///
/// [`Gpt2Error::NoTokenizer`] if there is none.
pub(super) fn tokenizer_for(vocabulary: usize) -> Result<Tokenizer, Gpt2Error> {
    Tokenizer::of_vocabulary(vocabulary).ok_or(Gpt2Error::NoTokenizer { vocabulary })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vocabularies_without_tokenizer_are_named() {
        assert_eq!(tokenizer_for(256).unwrap(), Tokenizer::Bytes);
        assert_eq!(tokenizer_for(50_257).unwrap(), Tokenizer::Gpt2);
        assert_eq!(
            tokenizer_for(11).unwrap_err().to_string(),
            "the model has 11 tokens, but text becomes 256 (bytes) or 50257 (gpt2); choose another \
             --model"
        );
    }
}
