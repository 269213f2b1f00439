use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads what a program wrote beside its model, which names its `format` and `version`.
///
/// # Errors
///
/// Why it is not of this format and version.
pub fn read_description<T: DeserializeOwned>(
    value: &Value,
    format: &str,
    version: u32,
) -> Result<T, String> {
    match value.get("format").and_then(Value::as_str) {
        Some(found) if found == format => {}
        Some(other) => return Err(format!("its format is {other:?}, not {format:?}")),
        None => return Err("it does not name its format".into()),
    }
    match value.get("version").and_then(Value::as_u64) {
        Some(found) if found == u64::from(version) => {}
        found => {
            let found = found.map_or("unknown".into(), |found| found.to_string());
            return Err(format!("its version is {found}, not {version}"));
        }
    }
    T::deserialize(value).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, PartialEq, Deserialize)]
    struct State {
        step: u32,
    }

    #[test]
    fn other_formats_and_versions_are_refused() {
        let read = |value| read_description::<State>(&value, "a", 2);
        let good = json!({"format": "a", "version": 2, "step": 3});
        assert_eq!(read(good), Ok(State { step: 3 }));
        let message = |value| read(value).unwrap_err();
        assert_eq!(message(json!(null)), "it does not name its format");
        let other = message(json!({"format": "b", "version": 2}));
        assert_eq!(other, "its format is \"b\", not \"a\"");
        let old = message(json!({"format": "a", "version": 1}));
        assert_eq!(old, "its version is 1, not 2");
        let unknown = message(json!({"format": "a", "version": -1}));
        assert_eq!(unknown, "its version is unknown, not 2");
        assert!(message(json!({"format": "a", "version": 2})).contains("step"));
    }
}
