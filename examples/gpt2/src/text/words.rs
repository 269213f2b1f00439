use super::{TextError, TextSource};
use indicatif::ProgressBar;
use std::io::{BufRead, BufReader};

impl TextSource {
    /// Number of words as language models count them on WikiText: stretches without white space,
    /// and one end of line for every line.
    ///
    /// # Errors
    ///
    /// [`TextError::Read`] if a file cannot be read.
    pub fn count_words(&self) -> Result<u64, TextError> {
        let mut words = 0;
        // A line may go on in the next file.
        let mut line = Vec::new();
        for file in self.files() {
            let mut reader = BufReader::new(file.open(&ProgressBar::hidden())?);
            loop {
                let read = reader.read_until(b'\n', &mut line);
                if read.map_err(TextError::read(file.path()))? == 0 {
                    break;
                }
                if line.ends_with(b"\n") {
                    words += count_words(&line);
                    line.clear();
                }
            }
        }
        Ok(words + count_words(&line))
    }
}

/// Number of words of a text, see [`TextSource::count_words`].
pub fn count_words(text: &[u8]) -> u64 {
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    lines
        .map(|line| String::from_utf8_lossy(line).split_whitespace().count() as u64 + 1)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_line_counts_as_a_word() {
        assert_eq!(count_words(b""), 0);
        assert_eq!(count_words(b"\n"), 1);
        assert_eq!(count_words(b" = A  title = \n \nlast"), 4 + 1 + 1 + 1 + 1);
    }

    #[test]
    fn lines_go_on_in_the_next_file() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("1.txt"), "one tw").unwrap();
        fs::write(dir.path().join("2.txt"), "o\nthree").unwrap();
        let source = TextSource::find(&[dir.path().into()]).unwrap();

        assert_eq!(
            source.count_words().unwrap(),
            count_words(b"one two\nthree")
        );
    }
}
