//! One line for every row; the rest is in the JSON.

use crate::Row;
use crate::single::Served;

/// Of the head and of the network: wall time of a captured run that is waited for and of one among runs that
/// are queued, device time, energy of a captured run, memory in use and reserved.
pub const HEADER: &str = "  mode    sp. |  head: us  queued  dev us      mJ   used MB  resv. MB | network: us  queued  dev us      mJ  resv. MB | \
     step ms  fwd+bwd      mJ  used MB  resv. MB     loss";

pub fn line(row: &Row) -> String {
    let head = served(row.head.as_ref());
    let network = served(row.network.as_ref());
    let training = row.training.as_ref();
    let memory = training.and_then(|training| training.memory);
    format!(
        "{:>6} {:>6} | {} {:>7} {:>7} {:>7} {:>9} {:>9} | {:>11} {:>7} {:>7} {:>7} {:>9} | {:>7} {:>8} {:>7} {:>8} {:>9} {:>8}",
        row.mode.to_string(),
        row.sparsity.map_or("-".into(), |s| s.to_string()),
        format_args!("{:>9}", head[0]),
        head[1],
        head[2],
        head[3],
        head[4],
        head[5],
        network[0],
        network[1],
        network[2],
        network[3],
        network[5],
        number(training.map(|t| t.step_ms), 2),
        number(training.map(|t| t.forward_backward_ms), 2),
        number(training.and_then(|t| t.mj_per_step), 0),
        number(memory.map(|memory| memory.in_use_mb), 0),
        number(memory.map(|memory| memory.reserved_mb), 0),
        number(training.map(|t| t.loss), 4),
    )
}

fn served(served: Option<&Served>) -> [String; 6] {
    let memory = served.and_then(|served| served.memory);
    [
        number(served.map(|s| s.captured.median_us), 1),
        number(served.map(|s| s.queued_us), 2),
        number(served.and_then(|s| s.device_us), 2),
        number(served.and_then(|s| s.captured.mj), 3),
        number(memory.map(|memory| memory.in_use_mb), 2),
        number(memory.map(|memory| memory.reserved_mb), 2),
    ]
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".into(), |value| format!("{value:.digits$}"))
}
