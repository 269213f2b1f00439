//! Rows on the screen and in a file.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::problems::Problem;

/// One measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    #[serde(flatten)]
    pub problem: Problem,
    pub method: String,
    /// Time on the device; `None` where it has no clock.
    pub device_us: Option<f64>,
    /// Time of one call, waited for.
    pub wall_us: Option<f64>,
    /// Relative error of sampled elements.
    pub err: Option<f64>,
    /// `None` where no bandwidth is known.
    pub floor_us: Option<f64>,
    /// What the floor counts.
    #[serde(skip)]
    pub bytes: f64,
    pub device: String,
    pub date: String,
    /// Why the method did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail: Option<String>,
    /// Why there is no time on the device, or why it is that of ordinary calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The table under way.
pub struct Report {
    rows: Vec<Row>,
    file: Option<PathBuf>,
}

impl Report {
    /// Prints the head of the table.
    pub fn new(file: Option<PathBuf>) -> Self {
        println!(
            "{:<15} {:>6} {:>6} {:>6} {:>10} {:>6} {:>5} {:<26} {:>11} {:>11} {:>9} {:>8} {:>7}",
            "op",
            "m",
            "k",
            "sp.",
            "nnz",
            "batch",
            "dtype",
            "method",
            "device us",
            "wall us",
            "err",
            "GB/s",
            "% floor"
        );
        Self {
            rows: Vec::new(),
            file,
        }
    }

    /// Prints a row and writes the file anew, so that a run cut short leaves what it has.
    ///
    /// # Errors
    ///
    /// As [`write_json`].
    pub fn push(&mut self, row: Row) -> Result<(), String> {
        println!("{}", line(&row));
        self.rows.push(row);
        self.write()
    }

    fn write(&self) -> Result<(), String> {
        match &self.file {
            Some(file) => write_json(file, &self.rows),
            None => Ok(()),
        }
    }

    /// Prints how many rows failed or are wrong, and writes the file of a run without rows too.
    ///
    /// # Errors
    ///
    /// As [`write_json`].
    pub fn finish(self) -> Result<(), String> {
        let failed = self.rows.iter().filter(|row| row.fail.is_some()).count();
        let wrong = self.rows.iter().filter(|row| is_wrong(row)).count();
        println!(
            "{} rows, {failed} could not run, {wrong} above the tolerance (marked !)",
            self.rows.len()
        );
        self.write()
    }
}

/// Refuses a file that could not be written after the measurements; what it holds stays.
///
/// # Errors
///
/// Says why.
pub fn check_writable(file: &Path) -> Result<(), String> {
    let opened = OpenOptions::new().append(true).create(true).open(file);
    opened.map(drop).map_err(|error| cannot_write(file, &error))
}

fn cannot_write(file: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", file.display())
}

/// # Errors
///
/// Says why the file cannot be written.
pub fn write_json<T: Serialize>(file: &Path, rows: &[T]) -> Result<(), String> {
    let lines: Vec<String> = rows
        .iter()
        .map(|row| serde_json::to_string(row).expect("rows are plain data"))
        .collect();
    let text = format!("[\n{}\n]\n", lines.join(",\n"));
    fs::write(file, text).map_err(|error| cannot_write(file, &error))
}

fn is_wrong(row: &Row) -> bool {
    row.err
        .is_some_and(|err| err > row.problem.dtype.tolerance())
}

fn line(row: &Row) -> String {
    let head = format!("{} {:<26}", row.problem, row.method);
    if let Some(fail) = &row.fail {
        return format!("{head} {fail}");
    }
    let number = |value: Option<f64>| value.map_or("-".to_string(), |us| format!("{us:.2}"));
    let us = row.device_us.or(row.wall_us).unwrap_or(f64::NAN);
    let floor = row.floor_us.map_or("-".to_string(), |floor| {
        format!("{:.1}", 100.0 * floor / us)
    });
    format!(
        "{head} {:>11} {:>11} {:>8.1e}{} {:>8.1} {floor:>7}{}",
        number(row.device_us),
        number(row.wall_us),
        row.err.unwrap_or(f64::NAN),
        if is_wrong(row) { "!" } else { " " },
        row.bytes / us / 1e3,
        row.note
            .as_ref()
            .map_or(String::new(), |note| format!("  ({note})")),
    )
}

/// Today, as `YYYY-MM-DD` in UTC.
pub fn today() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs());
    // Civil date from days, in eras of 400 years that start in March.
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + 400 * era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
