//! Modules that nginx loads when it starts. Debian has a package for each.

use std::path::PathBuf;

/// Folder of nginx modules in Debian's packages.
const FOLDER: &str = "/usr/lib/nginx/modules";
/// Environment variable with another folder, for another nginx.
const FOLDER_VARIABLE: &str = "NGINX_MODULES";

/// A module.
#[derive(Clone, Copy, Debug)]
pub struct NginxModule {
    file: &'static str,
    package: &'static str,
}

impl NginxModule {
    /// Compression with brotli.
    pub const BROTLI: Self =
        Self { file: "ngx_http_brotli_filter_module.so", package: "libnginx-mod-http-brotli-filter" };
    /// ModSecurity.
    pub const MODSECURITY: Self = Self {
        file: "ngx_http_modsecurity_module.so",
        package: "libnginx-mod-http-modsecurity modsecurity-crs",
    };
    /// TCP and UDP.
    pub const STREAM: Self = Self { file: "ngx_stream_module.so", package: "libnginx-mod-stream" };

    /// Returns the directive that loads it, at the top of a configuration.
    ///
    /// # Errors
    /// It is missing; the message states how to install it.
    pub fn directive(self) -> anyhow::Result<String> {
        let folder = std::env::var_os(FOLDER_VARIABLE).map_or_else(|| PathBuf::from(FOLDER), PathBuf::from);
        let path = folder.join(self.file).display().to_string();
        anyhow::ensure!(
            PathBuf::from(&path).is_file(),
            "{path} is missing; install it with: apt-get install {}; or name the folder of nginx's modules with \
             {FOLDER_VARIABLE}",
            self.package
        );
        Ok(format!("load_module {path};\n"))
    }
}
