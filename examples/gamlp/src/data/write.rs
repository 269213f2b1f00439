use super::{GraphData, split::PARTS, temporary::temporary_file};
use flate2::{Compression, write::GzEncoder};
use std::{
    fmt::Display,
    fs,
    io::{self, BufWriter, Write},
    path::Path,
};

impl GraphData {
    /// Writes the graph in the layout that [`GraphFolder`](crate::GraphFolder) reads, with this name for
    /// its split. Numbers are written so that they are read as the same ones; what is not written is the
    /// [rule](crate::EdgeRule).
    ///
    /// Every file is written to a temporary one and put in its place in one step.
    ///
    /// # Errors
    ///
    /// An error if a folder or file cannot be written.
    pub fn write(&self, folder: &Path, split: &str) -> io::Result<()> {
        let raw = folder.join("raw");
        write_lines(&raw, "num-node-list", [self.nodes()])?;
        write_lines(&raw, "num-edge-list", [self.edges.len()])?;
        let edges = self
            .edges
            .iter()
            .map(|[source, target]| format!("{source},{target}"));
        write_lines(&raw, "edge", edges)?;
        if self.features.width > 0 {
            let rows = self.features.values.chunks_exact(self.features.width);
            write_lines(&raw, "node-feat", rows.map(joined))?;
        }
        let labels = (0..self.nodes() as u32).map(|node| match self.labels.get(node) {
            Some(label) => label.to_string(),
            None => "nan".into(),
        });
        write_lines(&raw, "node-label", labels)?;
        let lists = [&self.split.train, &self.split.valid, &self.split.test];
        for (part, nodes) in PARTS.iter().zip(lists) {
            write_lines(&folder.join("split").join(split), part, nodes)?;
        }
        Ok(())
    }
}

fn joined(row: &[f32]) -> String {
    let fields: Vec<_> = row.iter().map(f32::to_string).collect();
    fields.join(",")
}

fn write_lines(
    folder: &Path,
    name: &str,
    lines: impl IntoIterator<Item = impl Display>,
) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let temporary = temporary_file(folder, name, ".tmp")?;
    let encoder = GzEncoder::new(temporary, Compression::default());
    let mut file = BufWriter::with_capacity(1 << 16, encoder);
    for line in lines {
        writeln!(file, "{line}")?;
    }
    let encoder = file.into_inner().map_err(|error| error.into_error())?;
    let temporary = encoder.finish()?;
    temporary.as_file().sync_all()?;
    let path = folder.join(format!("{name}.csv.gz"));
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(())
}
