"""Client certificates at a global load balancer, and the headers that describe them."""

import re
from collections.abc import Iterable
from typing import Final

from twin.cluster.gateway.envoy.messages import EnvoyJson, script
from twin.front.cloud import Cloud, objects
from twin.front.model import ClientValidation
from twin.wire.property_values import get_path
from twin.world.store import Record

_POLICY: Final = {"gcp:networksecurity/serverTlsPolicy:ServerTlsPolicy"}
_TRUST: Final = {"gcp:certificatemanager/trustConfig:TrustConfig"}
_METADATA: Final = "twin.client_certificate"
_VARIABLE: Final = re.compile(r"\{(\w+)\}")
VARIABLES: Final = (
    "client_cert_present",
    "client_cert_chain_verified",
    "client_cert_error",
    "client_cert_spiffe_id",
    "client_cert_dnsname_sans",
    "client_cert_sha256_fingerprint",
)
"""Variables of custom headers that the twin knows (rule front.client-certificates)."""
_DESCRIBE: Final = """
local function spiffe_id(uris)
  local id = #uris == 1 and uris[1] or ""
  local path = id:match("^spiffe://[a-z0-9._-]+(/[%w._/-]+)$")
  local is_valid = path ~= nil and not (path .. "/"):find("/%.*/")
  return is_valid and id or ""
end

local LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
local CLIENT_AUTH = string.char(6, 8, 43, 6, 1, 5, 5, 7, 3, 2) -- 1.3.6.1.5.5.7.3.2, in DER

local function is_for_clients(ssl)
  local pem = ssl:urlEncodedPemEncodedPeerCertificate():gsub("%%(%x%x)", function(hex)
    return string.char(tonumber(hex, 16))
  end)
  local body = pem:match("CERTIFICATE%-+(.-)%-+END"):gsub("[^%w+/]", "")
  local bytes, bits, count = {}, 0, 0
  for letter in body:gmatch(".") do
    bits, count = bits * 64 + LETTERS:find(letter, 1, true) - 1, count + 6
    if count >= 8 then
      count = count - 8
      bytes[#bytes + 1] = string.char(math.floor(bits / 2 ^ count))
      bits = bits % 2 ^ count
    end
  end
  return table.concat(bytes):find(CLIENT_AUTH, 1, true) ~= nil
end

function envoy_on_request(handle)
  local found = {
    client_cert_present = "false", client_cert_chain_verified = "false", client_cert_spiffe_id = "",
    client_cert_dnsname_sans = "", client_cert_sha256_fingerprint = "",
    client_cert_error = "client_cert_not_provided",
  }
  local ssl = handle:connection():ssl()
  if ssl ~= nil and ssl:peerCertificatePresented() then
    local problems = {}
    local function within(limit, variable, text)
      if #text <= limit then return text end
      problems[#problems + 1] = variable .. "_exceeded_size_limit"
      return ""
    end
    local is_verified = ssl:peerCertificateValidated()
    if not is_for_clients(ssl) then
      is_verified, problems[1] = false, "client_cert_chain_invalid_eku"
    elseif not is_verified then
      problems[1] = "client_cert_validation_failed"
    end
    local names = {}
    for at, name in ipairs(ssl:dnsSansPeerCertificate()) do
      names[at] = handle:base64Escape(name)
    end
    local digest = ssl:sha256PeerCertificateDigest():gsub("..", function(two)
      return string.char(tonumber(two, 16))
    end)
    local id = spiffe_id(ssl:uriSanPeerCertificate())
    found = {
      client_cert_present = "true",
      client_cert_chain_verified = tostring(is_verified),
      client_cert_spiffe_id = within(2048, "client_cert_spiffe_id", id),
      client_cert_dnsname_sans = within(512, "client_cert_dnsname_sans", table.concat(names, ",")),
      client_cert_sha256_fingerprint = handle:base64Escape(digest),
    }
    found.client_cert_error = table.concat(problems, ",")
    if IS_REQUIRED and not is_verified then
      handle:respond({[":status"] = "400", ["connection"] = "close"}, "")
      return
    end
  end
  local metadata = handle:streamInfo():dynamicMetadata()
  for name, value in pairs(found) do metadata:set("METADATA", name, value) end
end
""".replace("METADATA", _METADATA)


def validation(cloud: Cloud, proxy: Record) -> ClientValidation | None:
    """Return how a proxy validates client certificates, if it has a policy for that."""
    policy = cloud.named(proxy.inputs.get("serverTlsPolicy"), _POLICY)
    if policy is None:
        return None
    wanted = get_path(policy.inputs, "mtlsPolicy.clientValidationTrustConfig")
    trust = cloud.named(wanted, _TRUST)
    stores = [] if trust is None else objects(trust.inputs, "trustStores")
    anchors = [each for store in stores for each in objects(store, "trustAnchors")]
    mode = get_path(policy.inputs, "mtlsPolicy.clientValidationMode")
    return ClientValidation(
        "\n".join(str(each.get("pemCertificate")).strip() for each in anchors),
        is_required=mode != "ALLOW_INVALID_OR_MISSING_CLIENT_CERT",
    )


def unknown_variables(headers: Iterable[tuple[str, str]]) -> list[str]:
    """Return the variables of custom headers that the twin does not replace."""
    named = [name for _, value in headers for name in _VARIABLE.findall(value)]
    return sorted(set(named) - set(VARIABLES))


def describe(found: ClientValidation | None) -> EnvoyJson:
    """Return the filter that reads the certificate of a client.

    If valid certificates are required, it refuses those without clientAuth. Envoy does this itself
    only for certificates that list other uses.
    """
    is_required = found is not None and found.is_required
    text = _DESCRIBE.replace("IS_REQUIRED", str(is_required).lower())
    return script("twin.client_certificate", text)


def header_changes(headers: tuple[tuple[str, str], ...]) -> EnvoyJson:
    """Return the changes of a route that set custom headers in place of those of the client.

    An empty value leaves what the client sent (rule front.client-certificates).
    """
    if not headers:
        return {}

    def value(text: str) -> str:
        escaped = text.replace("%", "%%")
        return _VARIABLE.sub(rf"%DYNAMIC_METADATA({_METADATA}:\1)%", escaped)

    return {
        "request_headers_to_add": [
            {
                "header": {"key": name, "value": value(text)},
                "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
            }
            for name, text in headers
        ],
    }


def tls_settings(found: ClientValidation | None) -> tuple[EnvoyJson, EnvoyJson]:
    """Return the settings of a TLS context, and of its common part."""
    if found is None:
        return {}, {}
    verification = "VERIFY_TRUST_CHAIN" if found.is_required else "ACCEPT_UNTRUSTED"
    context = {
        "trusted_ca": {"inline_string": found.anchors},
        "trust_chain_verification": verification,
    }
    # a resumed session would not be validated again
    resumption = {
        "disable_stateful_session_resumption": True,
        "disable_stateless_session_resumption": True,
    }
    required = {"require_client_certificate": found.is_required}
    return {**required, **resumption}, {"validation_context": context}
