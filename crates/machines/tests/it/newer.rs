//! What drivers of the newer protocol get beyond the first contract.
use crate::world::{World, call, loopback, machine, mk_new, mk_old, target};
use orrery_machines::drivers::{ErrorCode, OpError, Retry};
use orrery_proto::infragrpc::driver_side::{
    CreateResp, DeleteResp, ListResp, Machine, Response, StatusResp,
};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn an_error_carries_code_hint_and_state() {
    let world = World::start();
    let mut driver = world.driver(loopback(1), mk_new("A", "d")).await;
    let (wanted, args, limit) = (target("A"), machine("m"), call(5));
    let (outcome, ()) = tokio::join!(world.drivers.create(&wanted, &args, &limit), async {
        let said = CreateResp {
            error: "no capacity in this zone".into(),
            code: ErrorCode::ResourceExhausted.into(),
            retry_after_ms: 90_000,
            last_known_state: "zone-a tried".into(),
            ..Default::default()
        };
        driver.reply(Response::Createresponse(said)).await
    });
    let error = outcome.expect_err("refused");
    assert_eq!(error.to_string(), "no capacity in this zone (ResourceExhausted)");
    assert_eq!((error.retry(), error.retry_after()), (Retry::Late, Some(Duration::from_secs(90))));
    assert!(
        matches!(error, OpError::Refused { last_known_state, .. } if last_known_state == "zone-a tried")
    );

    let mut args = machine("m");
    args.last_known_state = "zone-a tried".into();
    let (made, ()) = tokio::join!(world.drivers.create(&wanted, &args, &limit), async {
        let asked = driver.next().await;
        let params = asked.operationparams.expect("has parameters");
        assert_eq!(params.last_known_state, "zone-a tried");
        let said = CreateResp {
            provider_id: "p1".into(),
            nodename: "n1".into(),
            addresses: vec!["10.1.2.3".into()],
            adopted: true,
            ..Default::default()
        };
        driver.answer(asked.operation_id, Response::Createresponse(said)).await;
    });
    let made = made.expect("created");
    assert_eq!(
        (made.provider_id.as_str(), made.node_name.as_str(), made.adopted),
        ("p1", "n1", true)
    );
    assert_eq!(made.addresses, ["10.1.2.3"]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_not_there_counts_as_deleted() {
    let world = World::start();
    let mut driver = world.driver(loopback(1), mk_new("A", "d")).await;
    let (wanted, args, limit) = (target("A"), machine("m"), call(5));
    let (outcome, ()) = tokio::join!(world.drivers.delete(&wanted, &args, &limit), async {
        let said = DeleteResp {
            error: "no such machine".into(),
            code: ErrorCode::NotFound.into(),
            ..Default::default()
        };
        driver.reply(Response::Deleteresponse(said)).await
    });
    assert_eq!(outcome, Ok(()));
}

fn mk_machine(id: &str) -> Machine {
    Machine { machine_id: id.into(), state: "running".into(), ..Default::default() }
}

/// Status is one message to a driver that has it, and a list to one that has not.
#[tokio::test(start_paused = true)]
async fn status_works_with_and_without_the_capability() {
    for (hello, operation) in [(mk_new("A", "d"), "status"), (mk_old("A", "d"), "list")] {
        let world = World::start();
        let mut driver = world.driver(loopback(1), hello).await;
        for (id, there) in [("p1", true), ("p2", false)] {
            let (wanted, mut args, limit) = (target("A"), machine(""), call(5));
            args.id = id.into();
            let (status, ()) = tokio::join!(world.drivers.status(&wanted, &args, &limit), async {
                let asked = driver.next().await;
                assert_eq!(asked.operation_type, operation);
                let answer = match (operation, there) {
                    ("list", _) => Response::Listresponse(ListResp {
                        list: vec![mk_machine("p0"), mk_machine("p1")],
                        ..Default::default()
                    }),
                    (_, true) => Response::Statusresponse(StatusResp {
                        machine: Some(mk_machine("p1")),
                        ..Default::default()
                    }),
                    (_, false) => Response::Statusresponse(StatusResp {
                        code: ErrorCode::NotFound.into(),
                        ..Default::default()
                    }),
                };
                driver.answer(asked.operation_id, answer).await;
            });
            let status = status.expect("answered");
            assert_eq!(status.map(|it| it.provider_id), there.then(|| id.to_owned()));
        }
    }
}
