//! Forged exports of tenants: splits an export into lines, changes them, and assembles them again with valid hashes and any
//! signature.

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

use tenantd_base::{
    entropy::Entropy,
    secrets::{InstallationKey, Signer},
};

/// The purpose and the content that the signatures of an export cover.
const PURPOSE: &str = "tenant_export";
const CONTEXT: &[u8] = b"tenantd export of a tenant, all lines so far: ";

/// The signer of an unrelated installation.
pub fn stranger(seed: u64) -> Signer {
    Signer::of(&InstallationKey::generate(&mut Entropy::from_seed(seed)), PURPOSE).unwrap()
}

#[derive(Clone, Debug)]
pub struct ForgedLine {
    pub kind: String,
    pub key: String,
    pub record: String,
}

#[derive(Clone, Debug)]
pub struct Forged {
    pub header: Value,
    pub lines: Vec<ForgedLine>,
}

impl Forged {
    /// Splits an export. Unchanged lines keep their bytes.
    pub fn of(file: &str) -> Self {
        let mut lines = file.lines();
        let header = serde_json::from_str(lines.next().unwrap()).unwrap();
        let split = |line: &str| {
            let (front, _) = line.split_once(",\"check\":\"").filter(|(_, check)| check.len() == 18).or_else(|| {
                let at = line.rfind(",\"check\":\"")?;
                Some((&line[..at], &line[at..]))
            })?;
            let kind = front.strip_prefix("{\"type\":\"")?.split('"').next()?;
            let rest = front.strip_prefix(&format!("{{\"type\":\"{kind}\",\"key\":"))?;
            let at = rest.find(",\"record\":")?;
            let (key, record) = (rest[..at].to_owned(), rest[at + ",\"record\":".len()..].to_owned());
            Some(ForgedLine { kind: kind.to_owned(), key, record })
        };
        Self { header, lines: lines.filter_map(split).collect() }
    }

    pub fn place(&self, kind: &str) -> usize {
        self.lines.iter().position(|line| line.kind == kind).unwrap_or_else(|| panic!("there is no {kind}"))
    }

    pub fn line(&mut self, kind: &str) -> &mut ForgedLine {
        let place = self.place(kind);
        &mut self.lines[place]
    }

    /// Changes the first record of a kind.
    pub fn change(&mut self, kind: &str, change: impl FnOnce(&mut Value)) {
        let line = self.line(kind);
        let mut record: Value = serde_json::from_str(&line.record).unwrap();
        change(&mut record);
        line.record = record.to_string();
    }

    /// Assembles the export in version 2, signed or not.
    pub fn file(&self, signer: Option<&Signer>) -> String {
        let mut header = self.header.clone();
        match signer {
            Some(signer) => header["signer"] = signer.public_key().unwrap().to_string().into(),
            None => drop(header.as_object_mut().unwrap().remove("signer")),
        }
        let (mut out, mut covered, mut hash) = (String::new(), Sha256::new(), Sha256::new());
        let mut counts = std::collections::BTreeMap::<&str, u64>::new();
        let put = |line: &str, covered: &mut Sha256, out: &mut String| {
            covered.update(line);
            covered.update("\n");
            out.push_str(line);
            out.push('\n');
        };
        let sign = |covered: &Sha256, out: &mut String| {
            let Some(signer) = signer else { return };
            let signature = signer.sign(&[CONTEXT, covered.clone().finalize().as_slice()].concat()).unwrap();
            out.push_str(&format!("{{\"type\":\"signature\",\"signature\":\"{signature}\"}}\n"));
        };
        put(&header.to_string(), &mut covered, &mut out);
        for (place, ForgedLine { kind, key, record }) in self.lines.iter().enumerate() {
            let front = format!("{{\"type\":\"{kind}\",\"key\":{key},\"record\":{record}");
            hash.update(&front);
            let check = HEXLOWER.encode(&hash.clone().finalize()[..8]);
            put(&format!("{front},\"check\":\"{check}\"}}"), &mut covered, &mut out);
            *counts.entry(kind).or_default() += 1;
            if place % 100 == 99 {
                sign(&covered, &mut out);
            }
        }
        let end = format!(
            "{{\"type\":\"end\",\"counts\":{},\"sha256\":\"{}\"}}",
            serde_json::to_string(&counts).unwrap(),
            HEXLOWER.encode(&hash.finalize())
        );
        put(&end, &mut covered, &mut out);
        sign(&covered, &mut out);
        out
    }
}
