//! Answers SPDK's JSON-RPC as SPDK does: no framing, its error codes, state that a restart loses.
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
    sync::Arc,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
};
use tokio_util::sync::CancellationToken;

/// How answers are put into packets.
#[derive(Clone, Copy, Debug)]
pub enum Delivery {
    Whole,
    ByteByByte,
    /// Together with an answer to something that nobody asked.
    WithNoise,
}

#[derive(Default)]
struct State {
    bdevs: BTreeMap<String, u64>,
    targets: BTreeMap<u64, String>,
    scsi_controller: Option<String>,
    blk_controllers: BTreeMap<String, String>,
    fail_next: HashMap<String, (i64, String)>,
    die_at: Option<String>,
    calls: Vec<(String, Value)>,
    connections: CancellationToken,
}

pub struct Fake {
    state: Arc<Mutex<State>>,
    accepting: CancellationToken,
}

type Answer = Result<Value, (i64, &'static str)>;
const EXISTS: (i64, &str) = (-17, "File exists");
const NO_DEVICE: (i64, &str) = (-19, "No such device");

impl Fake {
    pub fn start(socket: &Path, delivery: Delivery) -> Self {
        let listener = UnixListener::bind(socket).unwrap();
        let (state, accepting) = (Arc::<Mutex<State>>::default(), CancellationToken::new());
        let (shared, stop) = (state.clone(), accepting.clone());
        tokio::spawn(stop.run_until_cancelled_owned(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let stop = shared.lock().connections.clone();
                tokio::spawn(stop.run_until_cancelled_owned(talk(
                    stream,
                    shared.clone(),
                    delivery,
                )));
            }
        }));
        Self { state, accepting }
    }

    /// Everything in memory is lost and all connections break.
    pub fn restart(&self) {
        let old = std::mem::take(&mut *self.state.lock());
        old.connections.cancel();
    }

    pub fn stop(&self) {
        self.accepting.cancel();
        self.state.lock().connections.cancel();
    }

    pub fn has_bdev(&self, name: &str) -> bool {
        self.state.lock().bdevs.contains_key(name)
    }

    pub fn has_target(&self, name: &str) -> bool {
        self.state.lock().targets.values().any(|found| found == name)
    }

    pub fn fail_next(&self, method: &str, code: i64, message: &str) {
        self.state.lock().fail_next.insert(method.to_owned(), (code, message.to_owned()));
    }

    /// The next call of this method is the last thing it hears before it is restarted.
    pub fn die_at(&self, method: &str) {
        self.state.lock().die_at = Some(method.to_owned());
    }

    /// The parameters of the last call of a method.
    pub fn last(&self, method: &str) -> Option<Value> {
        let state = self.state.lock();
        state.calls.iter().rfind(|(called, _)| called == method).map(|(_, params)| params.clone())
    }
}

async fn talk(mut stream: UnixStream, state: Arc<Mutex<State>>, delivery: Delivery) {
    let (mut text, mut bytes) = (Vec::new(), [0; 4096]);
    while let Ok(count @ 1..) = stream.read(&mut bytes).await {
        text.extend_from_slice(&bytes[..count]);
        let mut requests = serde_json::Deserializer::from_slice(&text).into_iter::<Value>();
        let mut answers = Vec::new();
        while let Some(Ok(request)) = requests.next() {
            let Some(answer) = answer(&state, &request) else { return };
            answers.extend(answer.to_string().into_bytes());
        }
        let done = requests.byte_offset();
        text.drain(..done);
        deliver(&mut stream, &answers, delivery).await;
    }
}

async fn deliver(stream: &mut UnixStream, answers: &[u8], delivery: Delivery) {
    let noise = b"{\"jsonrpc\":\"2.0\",\"id\":987654321,\"result\":[]}";
    let written = match delivery {
        Delivery::Whole => stream.write_all(answers).await,
        Delivery::WithNoise => stream.write_all(&[noise, answers, noise].concat()).await,
        Delivery::ByteByByte => {
            let mut written = Ok(());
            for byte in answers {
                written = written.and(stream.write_all(&[*byte]).await);
                tokio::task::yield_now().await;
            }
            written
        }
    };
    // The client may have gone, which is its right.
    drop(written);
}

/// Nothing if it dies of the request.
fn answer(state: &Mutex<State>, request: &Value) -> Option<Value> {
    let method = request["method"].as_str().unwrap_or_default();
    let mut state = state.lock();
    if state.die_at.as_deref() == Some(method) {
        std::mem::take(&mut *state).connections.cancel();
        return None;
    }
    state.calls.push((method.to_owned(), request["params"].clone()));
    if let Some((code, message)) = state.fail_next.remove(method) {
        let error = json!({ "code": code, "message": message });
        return Some(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }));
    }
    Some(match state.call(method, &request["params"]) {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }),
        Err((code, message)) => {
            json!({ "jsonrpc": "2.0", "id": request["id"], "error": { "code": code, "message": message } })
        }
    })
}

impl State {
    fn call(&mut self, method: &str, params: &Value) -> Answer {
        let text = |key: &str| params[key].as_str().unwrap_or_default().to_owned();
        match method {
            "bdev_get_bdevs" => self.get_bdevs(params["name"].as_str()),
            "bdev_malloc_create" => {
                let bytes =
                    params["num_blocks"].as_u64().unwrap() * params["block_size"].as_u64().unwrap();
                self.create_bdev(text("name"), bytes)
            }
            "bdev_rbd_create" => self.create_bdev(text("name"), 1 << 30),
            "bdev_malloc_delete" | "bdev_rbd_delete" => {
                self.bdevs.remove(&text("name")).map(|_| json!(true)).ok_or(NO_DEVICE)
            }
            "vhost_get_controllers" => Ok(self.controllers()),
            "vhost_create_scsi_controller" => {
                self.scsi_controller = Some(text("ctrlr"));
                Ok(json!(true))
            }
            "vhost_scsi_controller_add_target" => {
                self.add_target(text("bdev_name"), &params["scsi_target_num"])
            }
            "vhost_scsi_controller_remove_target" => {
                let number = params["scsi_target_num"].as_u64().unwrap();
                let removed = self.targets.remove(&number);
                removed.map(|_| json!(true)).ok_or((-32602, "Device or resource busy"))
            }
            "vhost_create_blk_controller" => {
                self.blk_controllers.insert(text("ctrlr"), text("dev_name"));
                Ok(json!(true))
            }
            "vhost_delete_controller" => {
                self.blk_controllers.remove(&text("ctrlr")).map(|_| json!(true)).ok_or(NO_DEVICE)
            }
            _ => Err((-32601, "Method not found")),
        }
    }

    fn get_bdevs(&self, name: Option<&str>) -> Answer {
        let show = |(name, bytes): (&String, &u64)| json!({ "name": name, "block_size": 512, "num_blocks": bytes / 512, "product_name": "Malloc disk" });
        match name {
            None => Ok(self.bdevs.iter().map(show).collect()),
            Some(name) => {
                let found = self.bdevs.get_key_value(name).ok_or(NO_DEVICE)?;
                Ok(json!([show(found)]))
            }
        }
    }

    fn create_bdev(&mut self, name: String, bytes: u64) -> Answer {
        if self.bdevs.contains_key(&name) {
            return Err(EXISTS);
        }
        self.bdevs.insert(name.clone(), bytes);
        Ok(json!(name))
    }

    fn add_target(&mut self, bdev: String, number: &Value) -> Answer {
        if !self.bdevs.contains_key(&bdev) {
            return Err((-32602, "No such device"));
        }
        let free = || (0..8).find(|number| !self.targets.contains_key(number));
        let number = if number == &json!(-1) { free() } else { number.as_u64() };
        let number = number.ok_or((-32602, "No space left on device"))?;
        if self.targets.contains_key(&number) {
            return Err((-32602, "File exists"));
        }
        self.targets.insert(number, bdev);
        Ok(json!(number))
    }

    fn controllers(&self) -> Value {
        let target = |(number, bdev): (&u64, &String)| {
            json!({ "scsi_dev_num": number, "id": number, "target_name": format!("Target {number}"),
                    "luns": [{ "id": 0, "bdev_name": bdev }] })
        };
        let scsi = self.scsi_controller.iter().map(|controller| {
            let targets: Vec<Value> = self.targets.iter().map(target).collect();
            json!({ "ctrlr": controller, "cpumask": "0x1", "delay_base_us": 0,
                    "backend_specific": { "scsi": targets } })
        });
        let blk = self.blk_controllers.iter().map(|(controller, bdev)| {
            json!({ "ctrlr": controller, "backend_specific": { "block": { "readonly": false, "bdev": bdev } } })
        });
        scsi.chain(blk).collect()
    }
}
