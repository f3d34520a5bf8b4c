//! AWS: the EC2 Query API and STS, signed with Signature Version 4. With an `endpoint`, any EC2-compatible cloud: STS is then
//! called at the same endpoint. If it does not support STS, authentication lists its regions instead.

mod answers;
mod sigv4;

use std::collections::BTreeMap;

use data_encoding::BASE64;
use http::{HeaderName, header};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use answers::{DescribeInstanceTypes, DescribeInstances, DescribeRegions, ErrorAnswer, GetCallerIdentity, RunInstances};
use sigv4::{Signable, Signer, amz_date};

use tenantd_base::{cache::Cache, secrets::Secret};
use tenantd_egress::TargetUrl;

use super::{
    super::model::{CloudVm, Credential, Failure, FailureClass, Order, OrderToken},
    Access, Adapter, Answer, FleetPage, Identity, Rehearsal, VmPlace,
    client::{Call, Reply, unusable},
    fields::Field,
};

const EC2_VERSION: &str = "2016-11-15";
const STS_VERSION: &str = "2011-06-15";
/// The region for listing regions, and for signing if the configuration names no region.
const FIRST_REGION: &str = "us-east-1";
const PAGE: &str = "100";
/// The number of instance types per request, and in the cache.
const MAX_TYPES: usize = 100;
const KNOWN_TYPES: u64 = 2_000;
/// AWS refuses signatures whose time differs by more than this.
const MAX_SKEW_SECONDS: u64 = 300;
/// Has a valid form but does not exist.
const NO_IMAGE: &str = "ami-00000000000000000";
const SMALLEST_TYPE: &str = "t3.micro";
const AMZ_DATE: HeaderName = HeaderName::from_static("x-amz-date");
const AMZ_TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

/// The virtual CPUs and the memory of an instance type. They are the same for all accounts.
type Measures = (Option<u32>, Option<u64>);

#[derive(Clone, Debug)]
pub(super) struct Aws {
    types: Cache<String, Measures>,
}

/// The position in the list of all regions.
#[derive(Debug, Serialize, Deserialize)]
struct Walk {
    /// The remaining regions, starting with the current one.
    regions: Vec<String>,
    token: Option<String>,
}

#[derive(Clone, Copy, Debug)]
enum Service {
    Ec2,
    Sts,
}

impl Service {
    const fn name(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::Sts => "sts",
        }
    }

    const fn version(self) -> &'static str {
        match self {
            Self::Ec2 => EC2_VERSION,
            Self::Sts => STS_VERSION,
        }
    }
}

/// The ordered parameters of an action.
type Parameters = Vec<(String, String)>;

fn parameter(name: &str, value: impl Into<String>) -> (String, String) {
    (name.to_owned(), value.into())
}

impl Aws {
    pub(super) fn new() -> Self {
        Self { types: Cache::new(KNOWN_TYPES) }
    }

    async fn walk(&self, access: &Access, from: Option<&str>) -> Result<FleetPage, Failure> {
        let Walk { regions, token } = match from {
            Some(from) => serde_json::from_str(from).map_err(|error| unusable(&error.to_string()))?,
            None => Walk { regions: regions(access).await?, token: None },
        };
        let Some((region, later)) = regions.split_first() else { return Ok(FleetPage::default()) };
        let mut parameters = vec![parameter("MaxResults", PAGE)];
        parameters.extend(token.map(|token| parameter("NextToken", token)));
        let mut page = describe(access, region, parameters).await?;
        let token = page.next.take();
        self.measure(access, region, &mut page.vms).await;
        let rest = if token.is_some() { regions.clone() } else { later.to_vec() };
        let next = (!rest.is_empty()).then_some(Walk { regions: rest, token });
        let next = next.map(|walk| serde_json::to_string(&walk)).transpose().map_err(|error| unusable(&error.to_string()))?;
        Ok(page.and_next(next))
    }

    /// Fills in the virtual CPUs and the memory of the VMs. If the credential may not read instance types, the VMs stay without
    /// them.
    async fn measure(&self, access: &Access, region: &str, vms: &mut [CloudVm]) {
        let mut unknown: Vec<String> =
            vms.iter().map(|vm| vm.size.id.clone()).filter(|id| !id.is_empty() && self.types.get(id).is_none()).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown.truncate(MAX_TYPES);
        if !unknown.is_empty() {
            let names = unknown.iter().zip(1..).map(|(name, place)| parameter(&format!("InstanceType.{place}"), name.as_str()));
            match ask::<DescribeInstanceTypes>(access, Service::Ec2, region, "DescribeInstanceTypes", names.collect()).await {
                Ok(found) => {
                    for known in found.instance_type_set.item {
                        let measures = known.measures();
                        self.types.insert(known.name, measures);
                    }
                }
                Err(failure) => tracing::debug!(code = failure.code, "the instance types could not be read"),
            }
        }
        for vm in vms {
            (vm.size.vcpus, vm.size.memory_bytes) = self.types.get(&vm.size.id).unwrap_or_default();
        }
    }
}

impl Adapter for Aws {
    fn authenticate<'a>(&'a self, access: &'a Access) -> Answer<'a, Identity> {
        Box::pin(async move {
            let region = access.config.regions.first().map_or(FIRST_REGION, String::as_str);
            match ask::<GetCallerIdentity>(access, Service::Sts, region, "GetCallerIdentity", Vec::new()).await {
                Ok(answer) => Ok(Identity(answer.get_caller_identity_result.arn)),
                // An EC2-compatible cloud may lack STS.
                Err(failure) if access.config.endpoint.is_some() && speaks_no_sts(&failure) => {
                    ask::<DescribeRegions>(access, Service::Ec2, region, "DescribeRegions", Vec::new()).await?;
                    Ok(Identity(access.credential.hint().unwrap_or_default()))
                }
                Err(failure) => Err(failure),
            }
        })
    }

    fn list<'a>(&'a self, access: &'a Access, from: Option<&'a str>) -> Answer<'a, FleetPage> {
        Box::pin(self.walk(access, from))
    }

    fn get<'a>(&'a self, access: &'a Access, place: &'a VmPlace) -> Answer<'a, Option<CloudVm>> {
        Box::pin(async move {
            let parameters = vec![parameter("InstanceId.1", place.provider_vm_id.as_str())];
            match describe(access, &place.region, parameters).await {
                Ok(mut page) => {
                    self.measure(access, &place.region, &mut page.vms).await;
                    page.only()
                }
                Err(failure) if failure.class == FailureClass::NotFound => Ok(None),
                Err(failure) => Err(failure),
            }
        })
    }

    fn rehearse<'a>(&'a self, access: &'a Access, order: Option<&'a Order>) -> Answer<'a, Rehearsal> {
        Box::pin(async move {
            let region = order.map_or(access.config.regions.first().map_or(FIRST_REGION, String::as_str), |order| &order.region);
            let mut parameters = match order {
                Some(order) => run_parameters(order)?,
                None => ["MinCount", "MaxCount"]
                    .map(|name| parameter(name, "1"))
                    .into_iter()
                    .chain([parameter("ImageId", NO_IMAGE), parameter("InstanceType", SMALLEST_TYPE)])
                    .collect(),
            };
            parameters.push(parameter("DryRun", "true"));
            match ask::<RunInstances>(access, Service::Ec2, region, "RunInstances", parameters).await {
                // A server without dry runs may have created an instance: report an error instead of `Allowed`.
                Ok(_) => Err(unusable("the endpoint treated a dry run as an order: check the account for a new instance")),
                Err(failure) if failure.code == "DryRunOperation" => Ok(Rehearsal::Allowed),
                // EC2 checked the image before the permission to create.
                Err(failure) if order.is_none() && failure.code.starts_with("InvalidAMIID") => Ok(Rehearsal::CannotTell),
                Err(failure) => Err(failure),
            }
        })
    }

    fn find<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, Option<CloudVm>> {
        Box::pin(async move {
            let filter = vec![
                parameter("Filter.1.Name", format!("tag:{}", OrderToken::TAG)),
                parameter("Filter.1.Value.1", order.token.to_string()),
            ];
            describe(access, &order.region, filter).await?.only()
        })
    }

    fn provision<'a>(&'a self, access: &'a Access, order: &'a Order) -> Answer<'a, CloudVm> {
        Box::pin(async move {
            let mut parameters = run_parameters(order)?;
            parameters.push(parameter("ClientToken", order.token.to_string()));
            let created: RunInstances = ask(access, Service::Ec2, &order.region, "RunInstances", parameters).await?;
            let instance = created.instances_set.item.into_iter().next();
            let instance = instance.ok_or_else(|| unusable("the response to the order contains no instance"))?;
            Ok(instance.into_vm(&order.region)?)
        })
    }
}

fn speaks_no_sts(failure: &Failure) -> bool {
    ["InvalidAction", "UnknownOperation", "http_404", "http_405", "unexpected_answer"].contains(&failure.code.as_str())
}

/// The configured regions, or else the regions of the account.
async fn regions(access: &Access) -> Result<Vec<String>, Failure> {
    if !access.config.regions.is_empty() {
        return Ok(access.config.regions.clone());
    }
    if access.config.endpoint.is_some() {
        return Ok(vec![FIRST_REGION.to_owned()]);
    }
    let found: DescribeRegions = ask(access, Service::Ec2, FIRST_REGION, "DescribeRegions", Vec::new()).await?;
    Ok(found.region_info.item.into_iter().map(|region| region.region_name).collect())
}

/// A page of instances, with the token of the next page.
async fn describe(access: &Access, region: &str, parameters: Parameters) -> Result<FleetPage, Failure> {
    let answer: DescribeInstances = ask(access, Service::Ec2, region, "DescribeInstances", parameters).await?;
    let instances = answer.reservation_set.item.into_iter().flat_map(|reservation| reservation.instances_set.item);
    let page = FleetPage::read(instances.map(Field::Read), |instance| instance.into_vm(region));
    Ok(page.and_next(answer.next_token.filter(|token| !token.is_empty())))
}

fn run_parameters(order: &Order) -> Result<Parameters, Failure> {
    let mut parameters = vec![
        parameter("MinCount", "1"),
        parameter("MaxCount", "1"),
        parameter("ImageId", order.image.as_str()),
        parameter("InstanceType", order.size.as_str()),
    ];
    parameters.extend(order.zone.as_deref().map(|zone| parameter("Placement.AvailabilityZone", zone)));
    parameters.extend(order.network.as_deref().map(|subnet| parameter("SubnetId", subnet)));
    match order.ssh_keys.as_slice() {
        [] => {}
        [name] => parameters.push(parameter("KeyName", name.as_str())),
        _ => {
            let message = "EC2 accepts one key pair per instance: name only one in ssh_keys";
            return Err(Failure::new(FailureClass::InvalidRequest, "too_many_ssh_keys", message));
        }
    }
    let user_data = order.user_data.as_ref().map(|data| parameter("UserData", BASE64.encode(data.expose().as_bytes())));
    parameters.extend(user_data);
    parameters.push(parameter("TagSpecification.1.ResourceType", "instance"));
    let mut tags: BTreeMap<&str, String> = order.tags.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    tags.insert("Name", order.name.clone());
    tags.insert(OrderToken::TAG, order.token.to_string());
    for ((key, value), place) in tags.into_iter().zip(1..) {
        parameters.push(parameter(&format!("TagSpecification.1.Tag.{place}.Key"), key));
        parameters.push(parameter(&format!("TagSpecification.1.Tag.{place}.Value"), value));
    }
    Ok(parameters)
}

/// Sends an action. An order is sent only once, because not every EC2-compatible cloud honors the client token. The caller searches
/// for its result before it sends the order again.
async fn ask<T: DeserializeOwned>(
    access: &Access,
    service: Service,
    region: &str,
    action: &str,
    parameters: Parameters,
) -> Result<T, Failure> {
    let Credential::AccessKey { access_key_id, secret_access_key, session_token } = &access.credential else {
        return Err(Failure::new(FailureClass::InvalidCredentials, "wrong_type", "the credential is not an access key"));
    };
    let usual = if access.config.endpoint.is_some() { String::new() } else { usual_endpoint(service, region)? };
    let url = access.endpoint(&usual);
    let mut form = vec![("Action", action), ("Version", service.version())];
    form.extend(parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let mut call = Call::post(format!("{url}/")).form(&form);
    call.repeatable = action != "RunInstances";
    let signer = Signer { access_key_id, secret_access_key, region, service: service.name() };
    let reply = access.client.send(signed(access, call, &signer, session_token.as_ref())?).await?;
    if reply.is_success() { reply.xml() } else { Err(failure(&reply)) }
}

/// The endpoint of a region. Names with dots below `amazonaws.com` can belong to customers of AWS, such as those of load balancers.
/// A credential must not be sent there.
fn usual_endpoint(service: Service, region: &str) -> Result<String, Failure> {
    let is_label = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    if !is_label(region) {
        let message = format!("{region} is not the name of an AWS region, such as eu-west-1");
        return Err(Failure::new(FailureClass::InvalidRequest, "unknown_region", message));
    }
    Ok(format!("https://{}.{region}.amazonaws.com", service.name()))
}

fn signed(access: &Access, call: Call, signer: &Signer<'_>, token: Option<&Secret>) -> Result<Call, Failure> {
    let at = access.client.now();
    // The client sends the host in this normalized form, and the signature must match what is sent.
    let url = TargetUrl::parse(&call.url)
        .map_err(|problem| Failure::new(FailureClass::InvalidRequest, "bad_url", format!("the endpoint {problem}")))?;
    let rest = url.as_str().split_once("://").map_or("", |(_, rest)| rest);
    let (host, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
    let date = amz_date(at);
    let content_type = call.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut headers = vec![("content-type", content_type), ("host", host), ("x-amz-date", date.as_str())];
    headers.extend(token.map(|token| ("x-amz-security-token", token.expose())));
    let request = Signable { method: "POST", path, query: &[], headers: &headers, body: &call.body };
    let authorization = signer.authorization(&request, at);
    let mut call = call.header(AMZ_DATE, &date)?.secret_header(header::AUTHORIZATION, &authorization)?;
    if let Some(token) = token {
        call = call.secret_header(AMZ_TOKEN, token.expose())?;
    }
    Ok(call)
}

fn failure(reply: &Reply) -> Failure {
    let detail = reply.xml::<ErrorAnswer>().ok().and_then(ErrorAnswer::detail).unwrap_or_default();
    let mut class = class_of(&detail.code, &detail.message).unwrap_or_else(|| reply.class());
    let skewed = reply.clock_skew().is_some_and(|skew| skew.as_secs() > MAX_SKEW_SECONDS);
    if class == FailureClass::InvalidCredentials && skewed {
        class = FailureClass::ClockSkew;
    }
    reply.failure(class, &detail.code, &detail.message)
}

/// The class of an AWS error code. `None` if the code says no more than the status.
fn class_of(code: &str, message: &str) -> Option<FailureClass> {
    let class = match code {
        "SignatureDoesNotMatch" if message.contains("expired") || message.contains("not yet current") => FailureClass::ClockSkew,
        "RequestExpired" | "RequestTimeTooSkewed" => FailureClass::ClockSkew,
        "AuthFailure"
        | "InvalidClientTokenId"
        | "InvalidAccessKeyId"
        | "SignatureDoesNotMatch"
        | "UnrecognizedClientException"
        | "IncompleteSignature"
        | "MissingAuthenticationToken"
        | "ExpiredToken"
        | "ExpiredTokenException" => FailureClass::InvalidCredentials,
        "UnauthorizedOperation"
        | "AccessDenied"
        | "AccessDeniedException"
        | "OptInRequired"
        | "Blocked"
        | "PendingVerification" => FailureClass::InsufficientPermissions,
        "RequestLimitExceeded" | "Throttling" | "ThrottlingException" | "EC2ThrottledException" | "BandwidthLimitExceeded" => {
            FailureClass::RateLimited
        }
        "InstanceLimitExceeded"
        | "VcpuLimitExceeded"
        | "ResourceLimitExceeded"
        | "InsufficientInstanceCapacity"
        | "InsufficientCapacity"
        | "InsufficientFreeAddressesInSubnet" => FailureClass::QuotaExceeded,
        "InternalError" | "InternalFailure" | "Unavailable" | "ServiceUnavailable" => FailureClass::ProviderError,
        code if code.ends_with(".NotFound") || code == "InvalidInstanceID.Malformed" => FailureClass::NotFound,
        code if code.starts_with("Invalid") || code.starts_with("Missing") || code.starts_with("Unsupported") => {
            FailureClass::InvalidRequest
        }
        _ => return None,
    };
    Some(class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_cannot_select_a_foreign_server() {
        assert_eq!(usual_endpoint(Service::Ec2, "eu-west-1").unwrap(), "https://ec2.eu-west-1.amazonaws.com");
        for region in ["balancer-1.eu-west-1.elb", "bucket.s3", "x_y", ""] {
            assert_eq!(usual_endpoint(Service::Sts, region).unwrap_err().code, "unknown_region", "{region}");
        }
    }

    #[test]
    fn aws_error_codes_map_to_failure_classes() {
        for (code, message, class) in [
            ("AuthFailure", "", Some(FailureClass::InvalidCredentials)),
            ("SignatureDoesNotMatch", "Signature expired: 2026", Some(FailureClass::ClockSkew)),
            ("SignatureDoesNotMatch", "The request signature we calculated", Some(FailureClass::InvalidCredentials)),
            ("UnauthorizedOperation", "", Some(FailureClass::InsufficientPermissions)),
            ("RequestLimitExceeded", "", Some(FailureClass::RateLimited)),
            ("VcpuLimitExceeded", "", Some(FailureClass::QuotaExceeded)),
            ("InvalidInstanceID.NotFound", "", Some(FailureClass::NotFound)),
            ("InvalidParameterValue", "", Some(FailureClass::InvalidRequest)),
            ("Unavailable", "", Some(FailureClass::ProviderError)),
            ("Weather", "", None),
        ] {
            assert_eq!(class_of(code, message), class, "{code}");
        }
    }
}
