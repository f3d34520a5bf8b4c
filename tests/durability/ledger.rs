//! The state of the workload: accounts whose balances always add up, and a journal of their changes.
//!
//! Every write takes the next ordinal, adds a journal entry and changes the accounts, all in one transaction. The content of a
//! recovered store proves itself: **invariant:** the journal has no gap, and replaying it gives exactly the accounts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use tenantd_base::entropy::Entropy;
use tenantd_store::{Index, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record};

/// Has the money that no account has.
const BANK: u32 = 0;
pub const TOTAL: u64 = 1_000_000;
const ACCOUNTS_AT_MOST: u64 = 9;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    name: String,
    group: u8,
    balance: u64,
    /// The ordinal of the last write to it.
    ordinal: u64,
    note: String,
}

/// The change of a write. A note is given by its length, to keep the journal small.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Opens the account with money of the bank, or changes everything but the money of an open one.
    Put {
        account: u32,
        name: String,
        group: u8,
        balance: u64,
        note: u32,
    },
    Close {
        account: u32,
    },
    Transfer {
        from: u32,
        to: u32,
        amount: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub write: u64,
    pub action: Action,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counter(u64);

impl Record for Account {
    const VERSION: u8 = 1;
}

impl Record for Entry {
    const VERSION: u8 = 1;
}

impl Record for Counter {
    const VERSION: u8 = 1;
}

static BY_NAME: Index<u32, Account> =
    Index { table: catalog::USERS_BY_EMAIL, unique: true, keys: |_, account| vec![account.name.to_bytes()] };
static BY_GROUP: Index<u32, Account> =
    Index { table: catalog::SESSIONS_BY_USER, unique: false, keys: |_, account| vec![account.group.to_bytes()] };
pub static ACCOUNTS: Table<u32, Account> = Table::new(catalog::USERS, &[&BY_GROUP, &BY_NAME]);
pub static JOURNAL: Table<u64, Entry> = Table::new(catalog::EVENT_CURSORS, &[]);
pub static COUNTER: Table<u8, Counter> = Table::new(catalog::TENANT_ACTIVITY, &[]);

#[derive(Clone, Debug)]
pub enum WriteError {
    /// Refused by the workload itself.
    Refused,
    Store(StoreError),
}

impl From<StoreError> for WriteError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// One write of the workload.
#[derive(Clone, Debug)]
pub struct Write {
    pub id: u64,
    pub action: Action,
    /// Refused by its own code after all changes: it must leave no trace.
    pub fails_after_writing: bool,
    /// A derived write: a power loss may revert it, unless a durable write was acknowledged after it.
    pub is_derived: bool,
}

/// The maximum lengths of notes in a run: short ones share a page, long ones make the file grow and shrink.
pub const NOTE_LENGTHS: [u64; 3] = [200, 9_000, 150_000];

impl Write {
    pub fn random(id: u64, note_length: u64, random: &mut Entropy) -> Self {
        let mut pick = |bound: u64| u32::try_from(random.below(bound)).unwrap_or_default();
        let account = 1 + pick(ACCOUNTS_AT_MOST);
        // Few enough names that some are taken.
        let name = format!("name {}", pick(4 * ACCOUNTS_AT_MOST));
        let group = u8::try_from(pick(3)).unwrap_or_default();
        let note = pick(note_length);
        let action = match pick(10) {
            0..6 => Action::Put { account, name, group, balance: u64::from(pick(1_000)), note },
            6 => Action::Close { account },
            _ => Action::Transfer { from: account, to: pick(1 + ACCOUNTS_AT_MOST), amount: u64::from(pick(300)) },
        };
        Self { id, action, fails_after_writing: pick(8) == 0, is_derived: pick(3) == 0 }
    }

    /// Runs in a transaction and returns the ordinal of the write.
    pub fn run(&self, tx: &mut WriteTx) -> Result<u64, WriteError> {
        let ordinal = COUNTER.get(tx, &0)?.map_or(0, |counter| counter.0) + 1;
        let edits = self.action.edits(ordinal, |account| Ok(ACCOUNTS.get(tx, &account)?))?;
        COUNTER.put(tx, &0, &Counter(ordinal))?;
        JOURNAL.put(tx, &ordinal, &Entry { write: self.id, action: self.action.clone() })?;
        for (account, record) in edits {
            match record {
                Some(record) => ACCOUNTS.put(tx, &account, &record)?,
                None => drop(ACCOUNTS.remove(tx, &account)?),
            }
        }
        if self.fails_after_writing { Err(WriteError::Refused) } else { Ok(ordinal) }
    }
}

type Edits = Vec<(u32, Option<Account>)>;

impl Action {
    /// The changed accounts after the write.
    fn edits(&self, ordinal: u64, get: impl Fn(u32) -> Result<Option<Account>, WriteError>) -> Result<Edits, WriteError> {
        let existing = |account: u32| get(account)?.ok_or(WriteError::Refused);
        let note =
            |length: u32| char::from(b'a' + u8::try_from(ordinal % 26).unwrap_or_default()).to_string().repeat(length as usize);
        let with = |account: Account, balance: Option<u64>| -> Result<Account, WriteError> {
            Ok(Account { balance: balance.ok_or(WriteError::Refused)?, ordinal, ..account })
        };
        let edits = match self {
            Self::Put { account, name, group, balance, note: length } => {
                let put = |balance| Account { name: name.clone(), group: *group, balance, ordinal, note: note(*length) };
                if let Some(old) = get(*account)? {
                    return Ok(vec![(*account, Some(put(old.balance)))]);
                }
                let bank = existing(BANK)?;
                let left = bank.balance.checked_sub(*balance);
                vec![(BANK, Some(with(bank, left)?)), (*account, Some(put(*balance)))]
            }
            Self::Close { account } => {
                let (bank, closed) = (existing(BANK)?, existing(*account)?);
                let sum = bank.balance.checked_add(closed.balance);
                vec![(*account, None), (BANK, Some(with(bank, sum)?))]
            }
            Self::Transfer { from, to, amount } if from != to => {
                let (giver, taker) = (existing(*from)?, existing(*to)?);
                let (less, more) = (giver.balance.checked_sub(*amount), taker.balance.checked_add(*amount));
                vec![(*from, Some(with(giver, less)?)), (*to, Some(with(taker, more)?))]
            }
            Self::Transfer { .. } => return Err(WriteError::Refused),
        };
        Ok(edits)
    }
}

fn bank() -> Account {
    Account { name: "bank".to_owned(), group: 9, balance: TOTAL, ordinal: 0, note: String::new() }
}

/// The first transaction.
pub fn set_up(tx: &mut WriteTx) -> Result<(), StoreError> {
    ACCOUNTS.put(tx, &BANK, &bank())
}

/// The whole content of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Books {
    pub accounts: BTreeMap<u32, Account>,
    pub journal: BTreeMap<u64, Entry>,
    pub counter: u64,
}

impl Books {
    pub fn read(tx: &impl Read) -> Result<Self, StoreError> {
        Ok(Self {
            accounts: ACCOUNTS.list(tx, &KeyRange::ALL, usize::MAX)?.into_iter().collect(),
            journal: JOURNAL.list(tx, &KeyRange::ALL, usize::MAX)?.into_iter().collect(),
            counter: COUNTER.get(tx, &0)?.map_or(0, |counter| counter.0),
        })
    }

    /// Proves the accounts by replaying the journal.
    pub fn prove(&self) -> Result<(), String> {
        if !self.journal.keys().copied().eq(1..=self.counter) {
            let ordinals: Vec<u64> = self.journal.keys().copied().collect();
            return Err(format!("the counter says {}, but the journal has {ordinals:?}", self.counter));
        }
        let mut replayed = BTreeMap::from([(BANK, bank())]);
        for (ordinal, entry) in &self.journal {
            let edits = entry.action.edits(*ordinal, |account| Ok(replayed.get(&account).cloned()));
            for (account, record) in edits.map_err(|error| format!("ordinal {ordinal} cannot be replayed: {error:?}"))? {
                match record {
                    Some(record) => drop(replayed.insert(account, record)),
                    None => drop(replayed.remove(&account)),
                }
            }
        }
        if replayed != self.accounts {
            return Err("the accounts are not what the journal says".to_owned());
        }
        let total: u64 = self.accounts.values().map(|account| account.balance).sum();
        if total == TOTAL { Ok(()) } else { Err(format!("the balances add up to {total}")) }
    }
}
