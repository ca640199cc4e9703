//! The end of a connection whose handshake was refused.
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// How long, and how much, a refused client may go on talking before it is cut off.
const TIME_MAX: Duration = Duration::from_secs(1);
const BYTES_MAX: usize = 64 << 10;

/// Lets a client read why it was refused: a connection that is closed while something of the client is
/// unread is reset, and the alert is lost with it.
pub async fn farewell(mut io: impl AsyncRead + AsyncWrite + Unpin) {
    let listening = async {
        if io.shutdown().await.is_err() {
            return;
        }
        let (mut bytes, mut heard) = ([0; 1024], 0);
        while heard < BYTES_MAX {
            match io.read(&mut bytes).await {
                Ok(0) | Err(_) => return,
                Ok(length) => heard += length,
            }
        }
    };
    // It is over either way.
    let _ = tokio::time::timeout(TIME_MAX, listening).await;
}
