//! The exported items of a crate as lines of text.

use quote::{ToTokens, quote};
use syn::{Attribute, Fields, ImplItem, Item, Path, TraitItem, Type};

use super::sources::{Resolved, Sources, imports, is_hidden, is_public, name_of};

/// Returns the lines that describe what a crate exports, sorted.
pub(crate) fn lines(sources: &Sources) -> Vec<String> {
    let mut lines = Vec::new();
    module(sources, &[], "", &mut lines);
    lines.sort();
    lines
}

fn module(sources: &Sources, path: &[String], prefix: &str, lines: &mut Vec<String>) {
    for item in sources.items(path) {
        match item {
            Item::Use(found) if is_public(&found.vis) && !is_hidden(&found.attrs) => {
                for (from, name) in imports(&found.tree) {
                    match sources.follow(path, &from) {
                        Some(Resolved::Item(item)) => describe(sources, item, &name, prefix, lines),
                        Some(Resolved::Module(path)) => {
                            module(sources, &path, &format!("{prefix}{name}::"), lines);
                        }
                        Some(Resolved::Foreign(from)) => lines.push(format!("use {from} as {prefix}{name}")),
                        None => lines.push(format!("{prefix}{name} (by a macro)")),
                    }
                }
            }
            Item::Mod(inner) if is_public(&inner.vis) && !is_hidden(&inner.attrs) => {
                let name = inner.ident.to_string();
                let path: Vec<String> = path.iter().cloned().chain([name.clone()]).collect();
                module(sources, &path, &format!("{prefix}{name}::"), lines);
            }
            item => {
                if let (true, Some(name)) = (is_public_item(item), name_of(item)) {
                    describe(sources, item, &name, prefix, lines);
                }
            }
        }
    }
}

fn is_public_item(item: &Item) -> bool {
    match item {
        Item::Const(item) => is_public(&item.vis),
        Item::Enum(item) => is_public(&item.vis),
        Item::Fn(item) => is_public(&item.vis),
        Item::Static(item) => is_public(&item.vis),
        Item::Struct(item) => is_public(&item.vis),
        Item::Trait(item) => is_public(&item.vis),
        Item::Type(item) => is_public(&item.vis),
        Item::Macro(item) => item
            .attrs
            .iter()
            .any(|attribute| attribute.path().is_ident("macro_export")),
        _ => false,
    }
}

/// Adds the lines of an item that is exported as `name`.
fn describe(sources: &Sources, item: &Item, name: &str, prefix: &str, lines: &mut Vec<String>) {
    let name = format!("{prefix}{name}");
    match item {
        Item::Struct(item) => {
            let (attributes, generics) = (attributes(&item.attrs), text(&item.generics));
            lines.push(format!("struct {name}{generics}{attributes}"));
            fields(&item.fields, &name, lines);
            methods(sources, &item.ident.to_string(), &name, lines);
        }
        Item::Enum(item) => {
            let (attributes, generics) = (attributes(&item.attrs), text(&item.generics));
            lines.push(format!("enum {name}{generics}{attributes}"));
            for variant in &item.variants {
                let (variant, fields) = (&variant.ident, &variant.fields);
                let fields = fields.iter().map(|field| {
                    let name = field.ident.as_ref().map(|name| format!("{name}: "));
                    format!("{}{}", name.unwrap_or_default(), text(&field.ty))
                });
                let fields: Vec<String> = fields.collect();
                lines.push(format!("{name}::{variant} ({})", fields.join(", ")));
            }
            methods(sources, &item.ident.to_string(), &name, lines);
        }
        Item::Trait(item) => {
            let (generics, supertraits) = (text(&item.generics), text(&item.supertraits));
            lines.push(format!("trait {name}{generics}: {supertraits}"));
            for part in &item.items {
                match part {
                    TraitItem::Fn(function) => lines.push(format!("{name}::{}", text(&function.sig))),
                    other => lines.push(format!("{name}::{}", text(other))),
                }
            }
        }
        Item::Fn(item) => lines.push(format!("{name}: {}", text(&item.sig))),
        Item::Const(item) => lines.push(format!("const {name}: {}", text(&item.ty))),
        Item::Static(item) => lines.push(format!("static {name}: {}", text(&item.ty))),
        Item::Type(item) => lines.push(format!(
            "type {name}{} = {}",
            text(&item.generics),
            text(&item.ty)
        )),
        Item::Macro(_) => lines.push(format!("macro {name}!")),
        _ => {}
    }
}

fn fields(fields: &Fields, name: &str, lines: &mut Vec<String>) {
    for (index, field) in fields
        .iter()
        .enumerate()
        .filter(|(_, field)| is_public(&field.vis))
    {
        let field_name = field
            .ident
            .as_ref()
            .map_or_else(|| index.to_string(), ToString::to_string);
        lines.push(format!("{name}.{field_name}: {}", text(&field.ty)));
    }
}

/// Adds the public methods of a type, and the traits that it implements by hand.
fn methods(sources: &Sources, of: &str, name: &str, lines: &mut Vec<String>) {
    for item in sources.all() {
        let Item::Impl(found) = item else { continue };
        if type_name(&found.self_ty).is_none_or(|found| found != of) {
            continue;
        }
        if let Some((_, path, _)) = &found.trait_ {
            lines.push(format!("{name}: impl {}", trait_text(path)));
            continue;
        }
        for part in &found.items {
            match part {
                ImplItem::Fn(part) if is_public(&part.vis) && !is_hidden(&part.attrs) => {
                    lines.push(format!("{name}::{}", text(&part.sig)));
                }
                ImplItem::Const(part) if is_public(&part.vis) => {
                    lines.push(format!("{name}::const {}: {}", part.ident, text(&part.ty)));
                }
                _ => {}
            }
        }
    }
}

fn type_name(found: &Type) -> Option<String> {
    match found {
        Type::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
        _ => None,
    }
}

/// Returns a trait without the modules that it is named by.
fn trait_text(path: &Path) -> String {
    path.segments.last().map(text).unwrap_or_default()
}

/// Returns the attributes that are part of the interface.
fn attributes(attributes: &[Attribute]) -> String {
    let mut of_interface = String::new();
    for attribute in attributes {
        if ["derive", "non_exhaustive", "must_use"]
            .iter()
            .any(|name| attribute.path().is_ident(name))
        {
            let meta = &attribute.meta;
            of_interface.push_str(&format!(" #[{}]", text(&quote!(#meta))));
        }
    }
    of_interface
}

/// Returns tokens as text, spaced as in a source.
fn text(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (from, to) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" < ", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" ,", ","),
        (" :", ":"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        ("& ", "&"),
        ("' ", "'"),
        (" ;", ";"),
        ("[ ", "["),
        (" ]", "]"),
        ("->", " ->"),
        (",)", ")"),
        ("  ", " "),
    ] {
        text = text.replace(from, to);
    }
    text
}
