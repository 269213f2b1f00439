//! Where text may be cut so that the GPT-2 tokens of the parts, joined, are those of the whole.
//!
//! The pattern of the tokenizer finds words one after the other, without looking back. None of its
//! alternatives goes on from a character that is not white space to one that is, so a word ends
//! wherever white space follows other text. Cut there, the first part ends in a word that would
//! have ended anyway (its rules about white space at the end of the text and before other text do
//! not apply to it), and the second part starts as the search would have gone on.

/// The last cut at or before `limit`, but not at 0.
pub fn cut_before(text: &str, limit: usize) -> Option<usize> {
    let limit = text.floor_char_boundary(limit);
    let mut after = text[limit..].chars().next();
    for (index, character) in text[..limit].char_indices().rev() {
        if is_cut(character, after) {
            return Some(index + character.len_utf8());
        }
        after = Some(character);
    }
    None
}

/// The first cut at or after `limit`, but not at 0.
pub fn cut_after(text: &str, limit: usize) -> Option<usize> {
    let limit = text.floor_char_boundary(limit);
    let mut before = text[..limit].chars().next_back();
    for (index, character) in text[limit..].char_indices() {
        if before.is_some_and(|before| is_cut(before, Some(character))) {
            return Some(limit + index);
        }
        before = Some(character);
    }
    None
}

/// Cuts text into pieces of about `size` bytes.
pub fn pieces(text: &str, size: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > size {
        let cut = cut_before(rest, size).or_else(|| cut_after(rest, size));
        let Some(cut) = cut else { break };
        let (piece, after) = rest.split_at(cut);
        pieces.push(piece);
        rest = after;
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

/// White space of this many characters counts as long.
const LONG: usize = 256;

/// Cuts text so that long white space, except for its last character if other text follows, is a
/// part of its own.
///
/// The tokenizer makes a word of just these characters. But to find that it must leave the last one
/// out, it takes one step back from the end of the white space, for which its pattern needs stack
/// in proportion to the length: a million of spaces would overflow it. At the end of a text nothing
/// is left out.
pub fn around_long_white_space(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (part, after) = rest.split_at(first_part(rest));
        rest = after;
        Some(part)
    })
}

/// Length of the text before the first long white space, or of that white space if it comes first.
fn first_part(text: &str) -> usize {
    // Start, length in characters and start of the last character of the current white space.
    let (mut start, mut length, mut last) = (0, 0, 0);
    for (index, character) in text.char_indices() {
        if character.is_whitespace() {
            if length == 0 {
                start = index;
            }
            length += 1;
            last = index;
        } else if length >= LONG {
            return if start > 0 { start } else { last };
        } else {
            length = 0;
        }
    }
    match start > 0 && length >= LONG {
        true => start,
        false => text.len(),
    }
}

/// The tokenizer's `\s` is the Unicode property that Rust calls white space.
fn is_cut(before: char, after: Option<char>) -> bool {
    !before.is_whitespace() && after.is_some_and(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tokenizer;

    #[test]
    fn cuts_lie_before_white_space_after_text() {
        let text = "ab  c\u{a0}d\n";
        let cuts: Vec<_> = (1..text.len())
            .filter(|&at| cut_before(text, at) == Some(at))
            .collect();

        assert_eq!(cuts, [2, 5, 8]);
        assert_eq!(cut_before(text, 4), Some(2));
        assert_eq!(cut_before(text, 1), None);
        assert_eq!(cut_before(text, text.len()), Some(8));
        assert_eq!(cut_after(text, 3), Some(5));
        assert_eq!(cut_after(text, 2), Some(2));
        assert_eq!(cut_after(text, 9), None);
        assert_eq!(cut_after("   ", 0), None);
    }

    #[test]
    fn pieces_join_to_the_text() {
        let text = "one two  three\n\nfour          five";
        for size in 1..=text.len() {
            assert_eq!(pieces(text, size).concat(), text);
        }
        assert_eq!(pieces("abcdef gh", 2), ["abcdef", " gh"]);
        assert!(pieces("", 3).is_empty());
    }

    #[test]
    fn long_white_space_is_a_part_of_its_own() {
        let parts =
            |text: &str| -> Vec<usize> { around_long_white_space(text).map(str::len).collect() };
        let long = " ".repeat(LONG);
        assert!(parts("").is_empty());
        assert_eq!(parts(&format!("ab{}c", &long[1..])), [LONG + 2]);
        assert_eq!(parts(&format!("ab{long}cd ")), [2, LONG - 1, 4]);
        assert_eq!(parts(&format!("{long}cd{long}")), [LONG - 1, 3, LONG]);
        assert_eq!(parts(&long), [LONG]);
    }

    /// All texts of five characters out of those that the pattern tells apart.
    #[test]
    fn tokens_of_the_pieces_are_those_of_the_whole() {
        let alphabet = [" ", "\n", "\u{a0}", "'", "l", "s", "7", "!"];
        let encode = |text: &str| Tokenizer::Gpt2.encode(text.as_bytes()).unwrap();
        for code in 0..alphabet.len().pow(5) {
            let mut code = code;
            let text: String = (0..5)
                .map(|_| {
                    let character = alphabet[code % alphabet.len()];
                    code /= alphabet.len();
                    character
                })
                .collect();
            let parts = pieces(&text, 1);
            if parts.len() > 1 {
                let joined: Vec<_> = parts.into_iter().flat_map(encode).collect();
                assert_eq!(joined, encode(&text), "{text:?}");
            }
        }
    }
}
