//! Secrets: what is written as text is kept as bytes.
use orrery_api::{Key, Object, Record, Value};
use orrery_hub::HubBuilder;

const SECRET: &str = "orrery.core.v1.Secret";

pub fn register(builder: HubBuilder) -> HubBuilder {
    builder.on_write(SECRET, take_text_in)
}

/// Takes `stringData` into `data`, where it wins over what stands there, as people expect it.
fn take_text_in(secret: &mut Object) {
    let number = |path| secret.kind().schema().field(path).map(|field| field.number);
    let (Some(texts), Some(data)) = (number("spec.stringData"), number("spec.data")) else {
        return;
    };
    if secret.spec().is_some_and(|spec| spec.has(texts))
        && let Some(spec) = secret.spec_mut()
    {
        fold(spec, texts, data);
    }
}

fn fold(spec: &mut Record, texts: u32, data: u32) {
    let Some(Value::Map(texts)) = spec.take(texts) else { return };
    let texts = texts.into_iter().map(as_bytes);
    match spec.get_mut(data).and_then(Value::as_map_mut) {
        Some(data) => data.extend(texts),
        None => spec.put(data, Value::Map(texts.collect())),
    }
}

fn as_bytes((name, text): (Key, Value)) -> (Key, Value) {
    let bytes = text.as_str().map(|text| text.to_owned().into_bytes()).unwrap_or_default();
    (name, Value::Bytes(bytes.into()))
}
