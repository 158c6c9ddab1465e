//! Label selectors as kubectl has them: `app=web,tier!=test,env in (a,b),new,!old`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Reads a selector; the error is the part that cannot be read.
pub(super) fn parse(text: &str) -> Result<LabelSelector, String> {
    let expressions = parts(text)
        .into_iter()
        .map(|part| expression(part.trim()).ok_or_else(|| part.trim().to_owned()))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(LabelSelector {
        match_expressions: Some(expressions),
        match_labels: None,
    })
}

/// Splits at commas that stand in no brackets.
fn parts(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    text.split(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    })
    .collect()
}

fn expression(part: &str) -> Option<LabelSelectorRequirement> {
    let make = |key: &str, operator: &str, values: Option<Vec<String>>| {
        let key = key.trim();
        let good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
        (!key.is_empty() && key.bytes().all(good)).then(|| LabelSelectorRequirement {
            key: key.to_owned(),
            operator: operator.to_owned(),
            values,
        })
    };
    let one = |value: &str| Some(vec![value.trim().to_owned()]);
    if let Some(key) = part.strip_prefix('!') {
        return make(key, "DoesNotExist", None);
    }
    if let Some(inner) = part.strip_suffix(')') {
        let (head, values) = inner.split_once('(')?;
        let mut words = head.split_whitespace();
        let (key, operator) = (words.next()?, words.next()?);
        let operator = match (operator, words.next()) {
            ("in", None) => "In",
            ("notin", None) => "NotIn",
            _ => return None,
        };
        let values = values.split(',').map(|value| value.trim().to_owned());
        return make(key, operator, Some(values.collect()));
    }
    if let Some((key, value)) = part.split_once("!=") {
        return make(key, "NotIn", one(value));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return make(key, "In", one(value));
    }
    make(part, "Exists", None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_kubectl_is_understood() {
        let selector =
            parse("app=web, tier!=test,env in (a, b),zone notin (c),new,!old,x==y").unwrap();
        let read: Vec<String> = selector
            .match_expressions
            .unwrap()
            .into_iter()
            .map(|one| {
                let values = one.values.unwrap_or_default().join("+");
                format!("{} {} {values}", one.key, one.operator)
            })
            .collect();
        assert_eq!(
            read,
            [
                "app In web",
                "tier NotIn test",
                "env In a+b",
                "zone NotIn c",
                "new Exists ",
                "old DoesNotExist ",
                "x In y"
            ]
        );
    }

    #[test]
    fn what_is_no_selector_is_named() {
        assert_eq!(
            parse("app=web,env within (a)").unwrap_err(),
            "env within (a)"
        );
        assert_eq!(parse("a b").unwrap_err(), "a b");
        assert!(parse("").is_err());
    }
}
