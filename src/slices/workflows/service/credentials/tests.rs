//! Literal credentials from earlier releases stay until someone replaces them.

use std::time::Duration;

use serde_json::{Value, json};

use tenantd_base::{
    access::{Grants, Scope},
    authority::Authority,
    clock::Timestamp,
    config,
    programs::Budget,
    versions::ExpectedVersion,
};
use tenantd_store::{
    ReadTx, RedbEngine, Store, StoreError, WriterSettings,
    events::{Actor, Intent, Kinds},
    holders::{HolderRights, Holders},
    steps::{Call, CallFuture, LocalError, Planned, Planning, RemoteStep, SecretPlace, StepEntry, StepError, StepType},
};

use super::{
    super::super::{
        model::Json,
        repo::{self, workflows::VersionRecord},
        steps::catalogue,
    },
    *,
};

const TENANT: TenantId = TenantId::from_bytes([2; 16]);

/// A step with one header that can contain a credential.
#[derive(Debug)]
struct Send;

impl StepType for Send {
    fn name(&self) -> &'static str {
        "send"
    }

    fn summary(&self) -> &'static str {
        ""
    }

    fn scopes(&self) -> Grants {
        Grants::NONE
    }

    fn schema(&self) -> Value {
        json!({"type": "object"})
    }

    fn example(&self) -> Value {
        json!({})
    }

    fn secret_places(&self) -> &'static [SecretPlace] {
        &[SecretPlace::Headers("headers")]
    }

    fn literal_credentials(&self, with: &Value) -> Vec<String> {
        let token = with.pointer("/headers/token").and_then(Value::as_str);
        token.filter(|token| !token.contains("{{")).map(|_| "/headers/token".to_owned()).into_iter().collect()
    }

    fn plan(&self, _tx: &ReadTx, _planning: &Planning, _with: &Value) -> Result<Planned, LocalError> {
        Ok(Planned { output: None, summary: String::new() })
    }
}

impl RemoteStep for Send {
    fn call(&self, _call: Call) -> CallFuture {
        Box::pin(async { Err(StepError::new("not_sent", "")) })
    }
}

/// Grants every right to everybody.
struct Everybody;

impl HolderRights for Everybody {
    fn authority(&self, _tx: &ReadTx, tenant: TenantId, _holder: &Actor, _now: Timestamp) -> Result<Authority, StoreError> {
        Ok(Authority::everything(tenant))
    }
}

fn definition(tokens: &[&str]) -> Value {
    let step =
        |(place, token): (usize, &&str)| json!({"id": format!("s{place}"), "type": "send", "with": {"headers": {"token": token}}});
    json!({"key": "x", "name": "X", "steps": tokens.iter().enumerate().map(step).collect::<Vec<_>>()})
}

fn faults(error: WorkflowError) -> Vec<(String, String)> {
    let WorkflowError::Invalid(faults) = error else { panic!("{error}") };
    faults.into_iter().map(|fault| (fault.place.to_string(), fault.code)).collect()
}

#[tokio::test]
async fn existing_literal_credentials_stay_and_new_ones_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let engine = RedbEngine::create(&directory.path().join("store"), 1 << 20).unwrap();
    let store = Store::new(engine, WriterSettings { batch_size: 8, queue_length: 8 }).unwrap();
    let (planners, _) = catalogue([StepEntry::remote(Send)]).unwrap();
    let settings = config::load(None, [], &[]).unwrap().workflows;
    let kinds = Arc::new(Kinds::new([&super::super::CREATED, &super::super::UPDATED]));
    let service = Arc::new(Service::new(planners, kinds, settings, Holders::new(Everybody, Duration::ZERO)));
    let now = Timestamp::from_millis(1_767_225_600_000);
    let (intent, everything) = (Intent::new(TENANT, now, Actor::system("test")), Authority::everything(TENANT));
    let budget = Budget::for_tests();
    let accept = |author: &Authority, value: Value| store.read(|tx| service.accept(tx, author, value, now, &budget));

    let refused = accept(&everything, definition(&["t0ken"])).unwrap_err();
    assert_eq!(faults(refused), [("/steps/0/with/headers/token".to_owned(), "literal_credential".to_owned())]);
    let accepted = accept(&everything, definition(&["{{ inputs.token }}"])).unwrap();
    let (making, by) = (service.clone(), intent.clone());
    let workflow = store.write(move |tx| {
        let mut act = by.begin();
        let workflow = making.create(tx, &mut act, &accepted)?;
        // As an earlier release stored it.
        let version = VersionRecord::first(Json(definition(&["t0ken"])), act.now, act.actor.clone());
        repo::workflows::put_version(tx, &workflow, &version)?;
        Ok::<_, WorkflowError>(workflow)
    });
    let id = workflow.await.unwrap().id;

    let change = async |patch: Value| {
        let accepted = store.read(|tx| service.accept_change(tx, &everything, id, &patch, now, &budget))?;
        let (service, intent) = (service.clone(), intent.clone());
        store.write(move |tx| service.change(tx, &mut intent.begin(), id, &ExpectedVersion::Unspecified, &accepted)).await
    };
    assert!(!change(json!({"enabled": false})).await.unwrap().0.enabled);
    assert!(change(json!({"enabled": true, "name": "Y"})).await.unwrap().0.enabled);
    assert!(store.read(|tx| service.accept_takeover(tx, &everything, id, now, &budget)).is_ok());
    change(json!({"steps": definition(&["t0ken", "{{ inputs.token }}"])["steps"]})).await.unwrap();
    let other = change(json!({"steps": definition(&["t0ken", "an0ther"])["steps"]})).await;
    assert_eq!(faults(other.unwrap_err()), [("/steps/1/with/headers/token".to_owned(), "literal_credential".to_owned())]);

    let named = definition(&["{{ secrets.github }}"]);
    let unknown = accept(&everything, named.clone()).unwrap_err();
    assert_eq!(faults(unknown), [("/steps/0/with/headers/token".to_owned(), "unknown_secret".to_owned())]);
    let weak = Authority::new(TENANT, Grants::all().without(Grants::of(&[Scope::SecretsUse])));
    assert!(matches!(accept(&weak, named), Err(WorkflowError::NotHeld(_))), "does not reveal which secrets exist");
    let stored = store.read(|tx| service.outline(tx, (TENANT, id, 1))).unwrap();
    assert_eq!(stored.steps.first().unwrap().with["headers"]["token"], "t0ken");
}
