//! A Pod's volumes as folders of the machine.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, DownwardAPIVolumeFile, KeyToPath, Pod, Secret, ServiceAccount, ServiceAccountTokenProjection,
    Volume, VolumeProjection,
};
use kube::api::PostParams;
use kube::{Api, ResourceExt};

use super::NodeContext;
use super::environment::{Contents, Kind, Names, PodFields, field};
use super::volume_files::{self, File, Files};
use crate::container_root::give_group;

/// The volumes of one Pod.
pub struct Volumes {
    node: Arc<NodeContext>,
    pod: Arc<Pod>,
    addresses: Vec<IpAddr>,
    folder: PathBuf,
    written: HashMap<String, Files>,
    tokens: HashMap<(String, String), Token>,
    version: u64,
}

struct Token {
    text: String,
    renew: Instant,
}

impl Volumes {
    /// Creates the volumes of a Pod under its folder.
    pub fn new(node: Arc<NodeContext>, pod: Arc<Pod>, addresses: Vec<IpAddr>, folder: PathBuf) -> Self {
        Self { node, pod, addresses, folder, written: HashMap::new(), tokens: HashMap::new(), version: 0 }
    }

    /// Updates every volume and returns the paths. Later calls rewrite what has changed.
    ///
    /// # Errors
    /// Returns an error if something that is not optional is missing; it may be created later.
    pub async fn update(&mut self) -> Result<HashMap<String, PathBuf>> {
        let pod = self.pod.clone();
        let spec = pod.spec.as_ref().context("the Pod has no spec")?;
        let group = spec
            .security_context
            .as_ref()
            .and_then(|context| context.fs_group)
            .map(u32::try_from)
            .transpose()?;
        let mut paths = HashMap::new();
        for volume in spec.volumes.iter().flatten() {
            let path = self.one(volume).await.with_context(|| format!("volume {:?}", volume.name))?;
            if let Some(group) = group {
                give_group(&path, group)?;
            }
            paths.insert(volume.name.clone(), path);
        }
        Ok(paths)
    }

    /// Returns the interval between updates. A real node takes up to a minute to detect a change.
    pub fn period(&self) -> Duration {
        let volumes = || self.pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
        let sources = || volumes().flat_map(|v| v.projected.iter().flat_map(|p| p.sources.iter().flatten()));
        // Every Pod mounts the authority's certificate, which never changes while a lab is running.
        let changes = volumes().any(|v| v.secret.is_some() || v.config_map.is_some())
            || sources().any(|s| {
                s.secret.is_some() || s.config_map.as_ref().is_some_and(|map| map.name != "kube-root-ca.crt")
            });
        Duration::from_secs(if changes { 5 } else { 300 })
    }

    async fn one(&mut self, volume: &Volume) -> Result<PathBuf> {
        let path = self.folder.join(&volume.name);
        fs::create_dir_all(&path)?;
        if volume.empty_dir.is_some() {
            make_writable(&path)?;
            return Ok(path);
        }
        let files = self.files(volume).await?;
        if self.written.get(&volume.name) != Some(&files) {
            self.version += 1;
            volume_files::write(&path, &files, self.version)?;
            self.written.insert(volume.name.clone(), files);
        }
        Ok(path)
    }

    async fn files(&mut self, volume: &Volume) -> Result<Files> {
        let mut files = Files::new();
        if let Some(secret) = &volume.secret {
            let name = secret.secret_name.clone().unwrap_or_default();
            let mode = mode(secret.default_mode);
            self.keys(Kind::Secret, name, secret.items.as_deref(), secret.optional, mode, &mut files).await?;
        } else if let Some(map) = &volume.config_map {
            let mode = mode(map.default_mode);
            self.keys(
                Kind::ConfigMap,
                map.name.clone(),
                map.items.as_deref(),
                map.optional,
                mode,
                &mut files,
            )
            .await?;
        } else if let Some(projected) = &volume.projected {
            for source in projected.sources.iter().flatten() {
                self.projection(&volume.name, source, mode(projected.default_mode), &mut files).await?;
            }
        } else {
            bail!("the lab has emptyDir, secret, configMap and projected volumes, and this is none");
        }
        Ok(files)
    }

    async fn projection(
        &mut self,
        volume: &str,
        source: &VolumeProjection,
        mode: u32,
        files: &mut Files,
    ) -> Result<()> {
        if let Some(secret) = &source.secret {
            let items = secret.items.as_deref();
            self.keys(Kind::Secret, secret.name.clone(), items, secret.optional, mode, files).await
        } else if let Some(map) = &source.config_map {
            self.keys(Kind::ConfigMap, map.name.clone(), map.items.as_deref(), map.optional, mode, files)
                .await
        } else if let Some(downward) = &source.downward_api {
            self.downward(downward.items.as_deref(), mode, files)
        } else if let Some(token) = &source.service_account_token {
            let content = self.token(volume, token).await?.into_bytes();
            files.insert(token.path.clone(), File { content, mode });
            Ok(())
        } else {
            bail!("the lab does not know this kind of projection")
        }
    }

    /// Adds the keys of a Secret or ConfigMap: all, or those of `items` under their paths.
    async fn keys(
        &self,
        kind: Kind,
        name: String,
        items: Option<&[KeyToPath]>,
        optional: Option<bool>,
        mode: u32,
        files: &mut Files,
    ) -> Result<()> {
        let optional = optional == Some(true);
        let namespace = self.pod.namespace().unwrap_or_default();
        let mut contents = fetch(&self.node, &namespace, Names::from([(kind, name.clone())])).await?;
        let Some(content) = contents.remove(&(kind, name.clone())) else {
            if optional {
                return Ok(());
            }
            bail!("{kind:?} {name:?} is missing");
        };
        match items {
            None => files.extend(content.into_iter().map(|(key, content)| (key, File { content, mode }))),
            Some(items) => {
                for item in items {
                    match content.get(&item.key) {
                        Some(content) => {
                            let mode = item.mode.map_or(mode, |mode| mode.unsigned_abs());
                            files.insert(item.path.clone(), File { content: content.clone(), mode });
                        }
                        None if optional => {}
                        None => bail!("key {:?} of {kind:?} {name:?} is missing", item.key),
                    }
                }
            }
        }
        Ok(())
    }

    fn downward(&self, items: Option<&[DownwardAPIVolumeFile]>, mode: u32, files: &mut Files) -> Result<()> {
        let node_address = self.node.index.address().into();
        let fields = PodFields { pod: &self.pod, addresses: &self.addresses, node_address };
        for item in items.unwrap_or_default() {
            let selector =
                item.field_ref.as_ref().with_context(|| format!("{:?} has no fieldRef", item.path))?;
            let text = field(&fields, selector)?;
            let mode = item.mode.map_or(mode, |mode| mode.unsigned_abs());
            files.insert(item.path.clone(), File { content: text.into_bytes(), mode });
        }
        Ok(())
    }

    /// Returns a token of the Pod's ServiceAccount, bound to the Pod and renewed after four fifths
    /// of its lifetime.
    async fn token(&mut self, volume: &str, wanted: &ServiceAccountTokenProjection) -> Result<String> {
        let key = (volume.to_owned(), wanted.path.clone());
        if let Some(token) = self.tokens.get(&key).filter(|token| token.renew > Instant::now()) {
            return Ok(token.text.clone());
        }
        let namespace = self.pod.namespace().unwrap_or_default();
        let account = self.pod.spec.as_ref().and_then(|spec| spec.service_account_name.clone());
        let seconds = wanted.expiration_seconds.unwrap_or(3600);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: wanted.audience.clone().map(|audience| vec![audience]),
                expiration_seconds: Some(seconds),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".into()),
                    kind: Some("Pod".into()),
                    name: Some(self.pod.name_any()),
                    uid: self.pod.uid(),
                }),
                ..Default::default()
            }),
            ..Default::default()
        };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.node.client.clone(), &namespace);
        let account = account.unwrap_or_else(|| "default".into());
        let answer = accounts.create_token_request(&account, &PostParams::default(), &request).await?;
        let text = answer.status.and_then(|status| status.token).context("the API gave no token")?;
        let renew = Instant::now() + Duration::from_secs(u64::try_from(seconds).unwrap_or(3600)) * 4 / 5;
        self.tokens.insert(key, Token { text: text.clone(), renew });
        Ok(text)
    }
}

/// Fetches ConfigMaps and Secrets. Missing ones are left out.
///
/// # Errors
/// Returns an error if the API request fails. For a moment after a Pod was bound, the API denies
/// the node access to the Pod's objects.
pub async fn fetch(node: &NodeContext, namespace: &str, names: Names) -> Result<Contents> {
    let mut contents = Contents::new();
    for (kind, name) in names {
        let content: Option<BTreeMap<String, Vec<u8>>> = match kind {
            Kind::Secret => {
                let secrets: Api<Secret> = Api::namespaced(node.client.clone(), namespace);
                let secret = secrets.get_opt(&name).await?;
                secret.map(|secret| {
                    secret.data.unwrap_or_default().into_iter().map(|(key, value)| (key, value.0)).collect()
                })
            }
            Kind::ConfigMap => {
                let maps: Api<ConfigMap> = Api::namespaced(node.client.clone(), namespace);
                maps.get_opt(&name).await?.map(|map| {
                    let text =
                        map.data.unwrap_or_default().into_iter().map(|(key, text)| (key, text.into_bytes()));
                    let binary =
                        map.binary_data.unwrap_or_default().into_iter().map(|(key, bytes)| (key, bytes.0));
                    text.chain(binary).collect()
                })
            }
        };
        if let Some(content) = content {
            contents.insert((kind, name), content);
        }
    }
    Ok(contents)
}

fn mode(given: Option<i32>) -> u32 {
    given.map_or(0o644, i32::unsigned_abs)
}

fn make_writable(path: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o777))?)
}
