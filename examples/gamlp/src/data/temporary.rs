use std::{io, path::Path};
use tempfile::{Builder, NamedTempFile};

/// A file that goes unless it is given another name in the same folder.
pub(crate) fn temporary_file(
    folder: &Path,
    prefix: &str,
    suffix: &str,
) -> io::Result<NamedTempFile> {
    let mut builder = Builder::new();
    builder.prefix(prefix).suffix(suffix);
    // As other programs create files, not readable by the owner alone.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    builder.tempfile_in(folder)
}
