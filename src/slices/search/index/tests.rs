//! What the index promises, on a real store.
