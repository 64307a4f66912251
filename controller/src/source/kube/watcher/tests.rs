use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::super::{client, plan};
use super::*;

/// A relist replaces the task of a watch, which may have reported a failure.
#[tokio::test]
async fn a_new_task_ends_the_failure_of_the_previous_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = kube::Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
    let (api_health, options) = (ApiHealth::new(), crate::Options::default());
    let (events, mut received) = mpsc::channel(8);
    let watcher = Watcher {
        client: client::of_watches(&config, &api_health).unwrap(),
        api_health,
        prune: Prune::new(&options),
        events,
        fetches: Arc::new(Semaphore::new(1)),
        number: 0,
        scope: plan::plan(&options).swap_remove(0),
        _guard: PanicGuard::default(),
    };
    let task = tokio::spawn(watcher.run());
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.read_u8().await.unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n").await.unwrap();
    assert!(matches!(received.recv().await.unwrap().what, What::Works));
    assert!(matches!(received.recv().await.unwrap().what, What::Begin));
    task.abort();
}
