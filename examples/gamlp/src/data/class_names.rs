//! What classes are called: the folder `mapping` of a data set.

use super::{DataError, Labels, LineFault, lines::read_lines, parse};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Start and end of the name of the file.
const FILE: (&str, &str) = ("labelidx2", ".csv.gz");

/// The name of every class of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassNames(Vec<String>);

impl ClassNames {
    /// Reads the names of `classes` classes from the file `labelidx2*.csv.gz` of a folder `mapping`;
    /// nothing if there is no such file.
    ///
    /// The first line is a header. Every other one is the number of a class, a comma and its name, in any
    /// order; a name in quotes is what is between them, where two quotes stand for one. Names of more
    /// classes are left out.
    ///
    /// # Errors
    ///
    /// [`DataError::SeveralNames`] if there are several such files, [`DataError::NoName`] if a class has
    /// no line, [`DataError::Line`] and others if the file cannot be read.
    pub(super) fn read(mapping: &Path, classes: usize) -> Result<Option<Self>, DataError> {
        let Some(path) = find(mapping)? else {
            return Ok(None);
        };
        let mut lines = Vec::new();
        let keep = |line: &[u8], lines: &mut Vec<Vec<u8>>| {
            lines.push(line.to_vec());
            Ok(())
        };
        read_lines(&path, keep, |block| lines.extend(block))?;
        let mut names: Vec<Option<String>> = vec![None; classes];
        for (line, text) in (1..).zip(&lines).skip(1) {
            let fault = |fault| DataError::Line {
                path: path.clone(),
                line,
                fault,
            };
            let (class, name) = named(text).map_err(fault)?;
            let Some(known) = names.get_mut(class) else {
                continue;
            };
            if known.replace(name).is_some() {
                return Err(fault(LineFault::NamedTwice { class }));
            }
        }
        match names.iter().position(Option::is_none) {
            Some(class) => Err(DataError::NoName {
                path,
                class,
                classes,
            }),
            None => Ok(Some(Self(names.into_iter().flatten().collect()))),
        }
    }

    /// The name of a class.
    ///
    /// # Panics
    ///
    /// Panics if there is no such class.
    pub fn of(&self, class: usize) -> &str {
        &self.0[class]
    }
}

/// The only file of names.
fn find(mapping: &Path) -> Result<Option<PathBuf>, DataError> {
    let entries = match fs::read_dir(mapping) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries.map_err(DataError::read(mapping))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let name = entry.map_err(DataError::read(mapping))?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(FILE.0) && name.ends_with(FILE.1) {
            found.push(name.into_owned());
        }
    }
    found.sort();
    match &found[..] {
        [] => Ok(None),
        [name] => Ok(Some(mapping.join(name))),
        _ => Err(DataError::SeveralNames {
            path: mapping.into(),
            found,
        }),
    }
}

/// A class and its name.
fn named(line: &[u8]) -> Result<(usize, String), LineFault> {
    let Some(comma) = line.iter().position(|&b| b == b',') else {
        return Err(LineFault::Fields {
            found: 1,
            expected: 2,
        });
    };
    let class = parse::count(&line[..comma], "number of a class", Labels::MAX.into())?;
    let text = String::from_utf8_lossy(&line[comma + 1..]);
    let text = text.trim();
    let name = match text.strip_prefix('"') {
        None if text.contains(',') => {
            let found = parse::fields_of(line);
            return Err(LineFault::Fields { found, expected: 2 });
        }
        None => text.into(),
        Some(quoted) => unquoted(quoted).ok_or_else(|| LineFault::Quotes { text: text.into() })?,
    };
    Ok((class, name))
}

/// What is between quotes, of which the first is gone.
fn unquoted(text: &str) -> Option<String> {
    let inner = text.strip_suffix('"')?;
    let single = inner.replace("\"\"", "");
    (!single.contains('"')).then(|| inner.replace("\"\"", "\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_be_quoted() {
        let name = |line: &str| named(line.as_bytes()).unwrap();
        assert_eq!(name("3,Toys & Games"), (3, "Toys & Games".into()));
        assert_eq!(name("0,\"Arts, Crafts\"\r"), (0, "Arts, Crafts".into()));
        assert_eq!(name("1,\"a \"\"b\"\" c\""), (1, "a \"b\" c".into()));
        assert_eq!(name("2, #508510 "), (2, "#508510".into()));
        assert_eq!(name("2,"), (2, String::new()));
        assert_eq!(name("2,\"\""), (2, String::new()));
    }

    #[test]
    fn lines_that_name_no_class_are_faults() {
        let message = |line: &str| named(line.as_bytes()).unwrap_err().to_string();
        assert_eq!(message("3"), "it has 1 fields, but must have 2");
        assert_eq!(message("3,a,b"), "it has 3 fields, but must have 2");
        assert_eq!(message("x,a"), "\"x\" is not an integer");
        assert_eq!(
            message("-1,a"),
            "the number of a class is -1, but must be between 0 and 1048575"
        );
        for text in ["\"a", "\"", "\"a\"b\"", "\"a\"\"", "\"a\" b"] {
            let expected = format!("the quotes of {text:?} do not end where it ends");
            assert_eq!(message(&format!("3,{text}")), expected);
        }
    }
}
