//! Fields of lines.

use super::{Labels, LineFault};
use core::num::IntErrorKind;

/// Classes that any graph may have, even if it has fewer nodes.
const FEW_CLASSES: usize = 1 << 10;

/// The text of a field, for messages.
fn shown(field: &[u8]) -> String {
    let text = String::from_utf8_lossy(field);
    match text.char_indices().nth(40) {
        None => text.into(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

fn parsed<T: core::str::FromStr>(field: &[u8]) -> Option<T> {
    core::str::from_utf8(field.trim_ascii()).ok()?.parse().ok()
}

/// An integer.
pub(super) fn integer(field: &[u8]) -> Result<i64, LineFault> {
    let text = || shown(field);
    let digits = core::str::from_utf8(field.trim_ascii());
    let digits = digits.map_err(|_| LineFault::NotAnInteger { text: text() })?;
    digits
        .parse()
        .map_err(|error: core::num::ParseIntError| match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => {
                LineFault::TooLarge { text: text() }
            }
            _ => LineFault::NotAnInteger { text: text() },
        })
}

/// A count of at most `max`.
pub(super) fn count(field: &[u8], what: &'static str, max: i64) -> Result<usize, LineFault> {
    let found = integer(field)?;
    match (0..=max).contains(&found) {
        true => Ok(found as usize),
        false => Err(LineFault::OutOfRange { what, found, max }),
    }
}

/// The number of a node.
pub(super) fn node(field: &[u8], nodes: usize) -> Result<u32, LineFault> {
    let node = integer(field)?;
    match u32::try_from(node) {
        Ok(found) if (found as usize) < nodes => Ok(found),
        _ => Err(LineFault::NoSuchNode { node, nodes }),
    }
}

/// `source,target`.
pub(super) fn edge(line: &[u8], nodes: usize) -> Result<[u32; 2], LineFault> {
    let mut fields = line.split(|&b| b == b',');
    match [fields.next(), fields.next(), fields.next()] {
        [Some(source), Some(target), None] => Ok([node(source, nodes)?, node(target, nodes)?]),
        _ => Err(LineFault::Fields {
            found: fields_of(line),
            expected: 2,
        }),
    }
}

/// Finite numbers in single precision.
pub(super) fn features(line: &[u8], width: usize, values: &mut Vec<f32>) -> Result<(), LineFault> {
    let found = fields_of(line);
    if found != width {
        return Err(LineFault::Fields {
            found,
            expected: width,
        });
    }
    for (index, field) in line.split(|&b| b == b',').enumerate() {
        let value: f32 =
            parsed(field).ok_or_else(|| LineFault::NotANumber { text: shown(field) })?;
        if !value.is_finite() {
            return Err(LineFault::NotFinite {
                text: shown(field),
                field: index + 1,
            });
        }
        values.push(value);
    }
    Ok(())
}

/// A class as `3` or `3.0`, or `nan` for a node without one.
///
/// One wrong label can make a million classes, so there are no more than nodes, or a few.
pub(super) fn label(field: &[u8], nodes: usize) -> Result<Option<u32>, LineFault> {
    let classes = nodes.max(FEW_CLASSES).min(Labels::MAX as usize + 1);
    let fault = || LineFault::NotAnInteger { text: shown(field) };
    let found = match parsed::<i64>(field) {
        Some(label) => label,
        None => {
            let number: f64 = parsed(field).ok_or_else(fault)?;
            if number.is_nan() {
                return Ok(None);
            }
            if number.fract() != 0.0 || !number.is_finite() {
                return Err(fault());
            }
            number as i64
        }
    };
    match u32::try_from(found) {
        Ok(label) if (label as usize) < classes => Ok(Some(label)),
        _ => Err(LineFault::NoSuchClass {
            text: shown(field),
            max: classes - 1,
            nodes,
        }),
    }
}

/// Number of comma-separated fields.
pub(super) fn fields_of(line: &[u8]) -> usize {
    1 + line.iter().filter(|&&b| b == b',').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_may_be_written_as_floats() {
        assert_eq!(label(b"3", 5), Ok(Some(3)));
        assert_eq!(label(b" 46.0 ", 5), Ok(Some(46)));
        assert_eq!(label(b"nan", 5), Ok(None));
        assert_eq!(label(b"NaN", 5), Ok(None));
        let message = |field: &[u8]| label(field, 5).unwrap_err().to_string();
        assert_eq!(message(b"3.5"), "\"3.5\" is not an integer");
        assert_eq!(message(b""), "\"\" is not an integer");
        assert_eq!(message(b"inf"), "\"inf\" is not an integer");
        assert_eq!(message(b"cat"), "\"cat\" is not an integer");
    }

    #[test]
    fn labels_that_no_class_can_have_are_shown_as_written() {
        let message = |field: &[u8], nodes| label(field, nodes).unwrap_err().to_string();
        for bad in ["-1", "1024", "1e30", "99999999999999999999"] {
            assert_eq!(
                message(bad.as_bytes(), 5),
                format!("the label is {bad}, but must be between 0 and 1023 in a graph of 5 nodes")
            );
        }
        assert_eq!(label(b"1024", 2000), Ok(Some(1024)));
        assert!(message(b"2000", 2000).contains("between 0 and 1999"));
        assert!(message(b"1048576", 1 << 30).contains("between 0 and 1048575"));
    }

    #[test]
    fn numbers_beyond_64_bits_are_not_called_words() {
        for text in ["99999999999999999999", "-99999999999999999999"] {
            let fault = integer(text.as_bytes()).unwrap_err();
            assert_eq!(fault.to_string(), format!("{text} is too large"));
        }
        assert!(matches!(
            integer(b"\xff"),
            Err(LineFault::NotAnInteger { .. })
        ));
    }

    #[test]
    fn long_fields_are_shortened_in_messages() {
        let fault = integer("ä".repeat(60).as_bytes()).unwrap_err();
        let expected = format!("\"{}...\" is not an integer", "ä".repeat(40));
        assert_eq!(fault.to_string(), expected);
    }
}
