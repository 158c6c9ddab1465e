/// Who talks to the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum User {
    /// May do everything, past all checks of rights (`system:masters`).
    Admin,
    /// A person who may do everything.
    Alice,
    /// Another person, who differs from Alice by name only.
    Bob,
    /// A person who may do everything in the namespace [`User::TENANT_NAMESPACE`] and nothing
    /// elsewhere.
    Tenant,
    /// A service account that may do everything.
    ///
    /// Its token comes from the API server (TokenRequest) and not from a list of tokens, so that
    /// its groups, its uid and the extra fields of its user info are those of real ones.
    Robot,
}

impl User {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Admin,
        Self::Alice,
        Self::Bob,
        Self::Tenant,
        Self::Robot,
    ];

    /// The namespace that [`User::Tenant`] is confined to.
    pub const TENANT_NAMESPACE: &str = "tenant";

    /// The namespace of the service account [`User::Robot`].
    pub const ROBOT_NAMESPACE: &str = "default";

    /// The user name that the API server knows, and that audit and admission show.
    #[must_use]
    pub const fn username(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Alice => "alice",
            Self::Bob => "bob",
            Self::Tenant => "tenant",
            Self::Robot => "system:serviceaccount:default:robot",
        }
    }

    /// The name without what Kubernetes puts before that of a service account.
    #[must_use]
    pub const fn short_name(self) -> &'static str {
        match self {
            Self::Robot => "robot",
            other => other.username(),
        }
    }
}
