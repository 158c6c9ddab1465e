//! One object, one file.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use super::zlib::Deflater;
use crate::object_id::ObjectKind;

/// Where an object of this name lies, below the objects folder.
pub(super) fn path_of(objects: &Path, id: &[u8; 20]) -> PathBuf {
    let name = gix_hash::ObjectId::from_bytes_or_panic(id).to_string();
    objects.join(&name[..2]).join(&name[2..])
}

/// Writes an object unless it is there. It appears whole or not at all.
pub(super) fn write(
    objects: &Path,
    deflater: &mut Deflater,
    kind: ObjectKind,
    id: &[u8; 20],
    content: &[u8],
) -> io::Result<()> {
    let path = path_of(objects, id);
    if path.exists() {
        return Ok(());
    }
    let folder = path.parent().expect("a loose object lies in a folder");
    let compressed = deflater.deflate(&[kind.header(content.len()).as_bytes(), content])?;
    let mut file = match temporary(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(folder)?;
            temporary(folder)?
        }
        other => other?,
    };
    file.write_all(compressed)?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(())
}

fn temporary(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    // The name that git gives its own, so that both are cleaned up alike.
    tempfile::Builder::new()
        .prefix("tmp_obj_")
        .tempfile_in(folder)
}
