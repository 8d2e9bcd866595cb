#include "certificates.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>

#define VALID_S (365L * 24 * 3600)

/* Before now, for a clock that is set back a little. */
#define SLACK_S 3600L

/* Functions of libcrypto; other commands do not wait until it is loaded. */
#define EACH(F)                                                                            \
    F(ASN1_INTEGER_set)                                                                    \
    F(EVP_PKEY_Q_keygen)                                                                   \
    F(EVP_PKEY_free)                                                                       \
    F(EVP_sha256)                                                                          \
    F(PEM_write_PrivateKey)                                                                \
    F(PEM_write_X509)                                                                      \
    F(X509V3_EXT_conf_nid)                                                                 \
    F(X509V3_set_ctx)                                                                      \
    F(X509_EXTENSION_free)                                                                 \
    F(X509_NAME_add_entry_by_txt)                                                          \
    F(X509_add_ext)                                                                        \
    F(X509_free)                                                                           \
    F(X509_get_serialNumber)                                                               \
    F(X509_get_subject_name)                                                               \
    F(X509_getm_notAfter)                                                                  \
    F(X509_getm_notBefore)                                                                 \
    F(X509_gmtime_adj)                                                                     \
    F(X509_new)                                                                            \
    F(X509_set_issuer_name)                                                                \
    F(X509_set_pubkey)                                                                     \
    F(X509_set_version)                                                                    \
    F(X509_sign)
#define TEXT(word)        #word
#define LIBRARY_OF(major) "libcrypto.so." TEXT(major)
#define LIBRARY           LIBRARY_OF(OPENSSL_SHLIB_VERSION)

static struct {
#define FIELD(name) __typeof__(name) *name;
    EACH(FIELD)
} crypto;

/* A certificate and its key. */
struct identity {
    X509 *certificate;
    EVP_PKEY *key;
};

static void free_identity(struct identity *identity)
{
    crypto.X509_free(identity->certificate);
    crypto.EVP_PKEY_free(identity->key);
}

static bool set_names(X509 *certificate, const X509 *issuer, const char *name)
{
    X509_NAME *subject = crypto.X509_get_subject_name(certificate);
    return crypto.X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                             (const unsigned char *)name, -1, -1, 0) == 1 &&
           crypto.X509_set_issuer_name(certificate, crypto.X509_get_subject_name(issuer)) ==
               1;
}

static bool add_extension(X509 *certificate, const X509 *issuer, int id, const char *text)
{
    X509V3_CTX context;
    crypto.X509V3_set_ctx(&context, (X509 *)issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *extension = crypto.X509V3_EXT_conf_nid(NULL, &context, id, text);
    bool added = extension && crypto.X509_add_ext(certificate, extension, -1) == 1;
    crypto.X509_EXTENSION_free(extension);
    return added;
}

/* `issuer` NULL: it signs itself, and is a CA. */
static bool make(struct identity *identity, const struct identity *issuer, long serial,
                 const char *name, const char *addresses)
{
    identity->key = crypto.EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    identity->certificate = crypto.X509_new();
    X509 *certificate = identity->certificate;
    if (!identity->key || !certificate)
        return false;
    const struct identity *signer = issuer ? issuer : identity;
    return crypto.X509_set_version(certificate, X509_VERSION_3) == 1 &&
           crypto.ASN1_INTEGER_set(crypto.X509_get_serialNumber(certificate), serial) ==
               1 &&
           crypto.X509_gmtime_adj(crypto.X509_getm_notBefore(certificate), -SLACK_S) &&
           crypto.X509_gmtime_adj(crypto.X509_getm_notAfter(certificate), VALID_S) &&
           crypto.X509_set_pubkey(certificate, identity->key) == 1 &&
           set_names(certificate, signer->certificate, name) &&
           add_extension(certificate, signer->certificate, NID_basic_constraints,
                         issuer ? "critical,CA:FALSE" : "critical,CA:TRUE") &&
           (!addresses || add_extension(certificate, signer->certificate,
                                        NID_subject_alt_name, addresses)) &&
           crypto.X509_sign(certificate, signer->key, crypto.EVP_sha256()) > 0;
}

static FILE *create(const char *folder, const char *name, const char *kind)
{
    char path[PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s.%s", folder, name, kind);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 ? NULL : fdopen(fd, "w");
}

static bool write_identity(const struct identity *identity, const char *folder,
                           const char *name)
{
    FILE *certificate = create(folder, name, "crt"), *key = create(folder, name, "key");
    bool written =
        certificate && key &&
        crypto.PEM_write_X509(certificate, identity->certificate) == 1 &&
        crypto.PEM_write_PrivateKey(key, identity->key, NULL, NULL, 0, NULL, NULL) == 1;
    if (certificate && fclose(certificate) != 0)
        written = false;
    if (key && fclose(key) != 0)
        written = false;
    return written;
}

const char *certificates_missing(void)
{
#ifdef RL_OPENSSL_LINKED
#define LOAD(name) crypto.name = name;
#else
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
#define LOAD(name)                                                                         \
    if (!library || !(*(void **)&crypto.name = dlsym(library, #name)))                     \
        return dlerror();
#endif
    EACH(LOAD)
    return NULL;
}

bool certificates_make(const char *folder)
{
    struct identity ca = {0}, server = {0}, client = {0};
    errno = 0;
    bool made = make(&ca, NULL, 1, "redlock local CA", NULL) &&
                make(&server, &ca, 2, "localhost", "DNS:localhost,IP:127.0.0.1,IP:::1") &&
                make(&client, &ca, 3, "redlock client", NULL) &&
                write_identity(&ca, folder, "ca") &&
                write_identity(&server, folder, "server") &&
                write_identity(&client, folder, "client");
    free_identity(&ca);
    free_identity(&server);
    free_identity(&client);
    if (!made && errno == 0)
        errno = ENOMEM;
    return made;
}
