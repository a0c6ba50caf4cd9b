//! The sources of a crate as a tree of modules.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Attribute, Item, UseTree, Visibility};

/// Path of a module within its crate.
pub(crate) type ModulePath = Vec<String>;

/// The items of all modules of a crate, without those for tests.
pub(crate) struct Sources {
    modules: BTreeMap<ModulePath, Vec<Item>>,
}

/// An item or a module, or the path of an item of another crate.
pub(crate) enum Resolved<'a> {
    Item(&'a Item),
    Module(ModulePath),
    Foreign(String),
}

impl Sources {
    /// Reads a crate from its directory of sources.
    pub(crate) fn load(directory: &Path) -> Self {
        let mut sources = Self {
            modules: BTreeMap::new(),
        };
        sources.add(&directory.join("lib.rs"), directory, vec![]);
        sources
    }

    /// Adds a crate whose items this crate exports as its own.
    pub(crate) fn with_internal(mut self, name: &str, directory: &Path) -> Self {
        self.add(&directory.join("lib.rs"), directory, vec![name.to_owned()]);
        self
    }

    fn add(&mut self, file: &Path, directory: &Path, path: ModulePath) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.add_items(parsed.items, directory, path);
    }

    fn add_items(&mut self, items: Vec<Item>, directory: &Path, path: ModulePath) {
        for item in &items {
            let Item::Mod(module) = item else { continue };
            if is_for_tests(&module.attrs) {
                continue;
            }
            let name = module.ident.to_string();
            let below = directory.join(&name);
            let path: ModulePath = path.iter().cloned().chain([name.clone()]).collect();
            match &module.content {
                Some((_, items)) => self.add_items(items.clone(), &below, path),
                None => {
                    let flat: PathBuf = directory.join(format!("{name}.rs"));
                    let file = if flat.exists() { flat } else { below.join("mod.rs") };
                    self.add(&file, &below, path);
                }
            }
        }
        self.modules.insert(path, items);
    }

    /// Returns the items of a module.
    pub(crate) fn items(&self, module: &[String]) -> &[Item] {
        self.modules.get(module).map_or(&[], Vec::as_slice)
    }

    /// Returns all items of the crate.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Item> {
        self.modules.values().flatten()
    }

    /// Returns what `name` in a module refers to.
    pub(crate) fn resolve(&self, module: &[String], name: &str) -> Option<Resolved<'_>> {
        let child: ModulePath = module.iter().cloned().chain([name.to_owned()]).collect();
        if self.modules.contains_key(&child) {
            return Some(Resolved::Module(child));
        }
        let items = self.items(module);
        if let Some(item) = items
            .iter()
            .find(|item| name_of(item).is_some_and(|found| found == name))
        {
            return Some(Resolved::Item(item));
        }
        let mut uses = items.iter().filter_map(|item| match item {
            Item::Use(found) => Some(imports(&found.tree)),
            _ => None,
        });
        let (path, _) = uses.find_map(|imports| imports.into_iter().find(|(_, renamed)| renamed == name))?;
        match path.as_slice() {
            [foreign] => Some(Resolved::Foreign(foreign.clone())),
            path => self.follow(module, path),
        }
    }

    /// Returns what a path in a module refers to.
    pub(crate) fn follow(&self, module: &[String], path: &[String]) -> Option<Resolved<'_>> {
        let (last, parents) = path.split_last()?;
        let mut here = module.to_vec();
        for (index, part) in parents.iter().enumerate() {
            match part.as_str() {
                "crate" => here.clear(),
                "self" => {}
                "super" => drop(here.pop()),
                part => match self.resolve(&here, part) {
                    Some(Resolved::Module(module)) => here = module,
                    _ if index == 0 => return Some(Resolved::Foreign(path.join("::"))),
                    _ => return None,
                },
            }
        }
        match self.resolve(&here, last) {
            None if parents.is_empty() => Some(Resolved::Foreign(last.clone())),
            resolved => resolved,
        }
    }
}

/// Returns the paths that a `use` imports, and the names that they get.
pub(crate) fn imports(tree: &UseTree) -> Vec<(ModulePath, String)> {
    match tree {
        UseTree::Path(path) => {
            let first = path.ident.to_string();
            let rest = imports(&path.tree).into_iter();
            rest.map(|(mut path, name)| {
                path.insert(0, first.clone());
                (path, name)
            })
            .collect()
        }
        UseTree::Name(name) => vec![(vec![name.ident.to_string()], name.ident.to_string())],
        UseTree::Rename(rename) => vec![(vec![rename.ident.to_string()], rename.rename.to_string())],
        UseTree::Glob(_) => vec![(vec!["*".to_owned()], "*".to_owned())],
        UseTree::Group(group) => group.items.iter().flat_map(imports).collect(),
    }
}

/// Returns the name that an item defines.
pub(crate) fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Returns true for `pub`, and false for `pub(crate)` and the like.
pub(crate) fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Returns true if the attributes hide an item from users: `#[doc(hidden)]`.
pub(crate) fn is_hidden(attributes: &[Attribute]) -> bool {
    has(attributes, "doc", "hidden")
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    has(attributes, "cfg", "test")
}

fn has(attributes: &[Attribute], name: &str, argument: &str) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        attribute.path().is_ident(name) && list.is_ok_and(|list| list.tokens.to_string() == argument)
    })
}
