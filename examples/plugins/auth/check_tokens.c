/* Authentication by tokens of one's own: see check_tokens.py, which does the same. Each token is a line "TOKEN=TENANT" of the
 * configuration, {"tokens": ["s3cret=acme"]}. Built by: smg-gateway plugin build check_tokens.c */
#define SMG_SETUP
#define SMG_REQUEST_HEAD
#include "smg_plugin.h"

static smg_header tokens[64]; /* name: the token, value: its tenant */
static size_t count;

smg_text configure(smg_text config) {
  static char kept[4096];
  if (config.size > sizeof kept) return SMG_TEXT("the configuration is too long");
  for (size_t i = 0; i < config.size; i++) kept[i] = config.at[i];
  size_t from = 0, equals = 0;
  bool inside = false;
  count = 0;
  for (size_t i = 0; i < config.size; i++) {
    if (kept[i] == '\\') return SMG_TEXT("tokens have no backslash");
    if (kept[i] == '=' && inside && !equals) equals = i;
    if (kept[i] != '"') continue;
    if (inside && equals) {
      if (count == sizeof tokens / sizeof *tokens) return SMG_TEXT("there are too many tokens");
      if (equals == from || equals + 1 == i) return SMG_TEXT("a token is TOKEN=TENANT");
      tokens[count++] = (smg_header){{kept + from, equals - from}, {kept + equals + 1, i - equals - 1}};
    }
    inside = !inside;
    from = i + 1;
    equals = 0;
  }
  if (!count) return SMG_TEXT("tokens is missing: a list of TOKEN=TENANT");
  return (smg_text){0, 0};
}

static bool same(smg_text one, smg_text other) { /* takes as long wherever they differ */
  unsigned char differs = one.size != other.size;
  for (size_t i = 0; i < one.size; i++) differs |= (unsigned char)(one.at[i] ^ (other.size ? other.at[i % other.size] : 1));
  return !differs;
}

smg_head_verdict on_request_head(smg_request_head head) {
  const smg_text name = SMG_TEXT("x-team-token");
  smg_text given = {0, 0};
  for (size_t i = 0; i < head.headers.size; i++)
    if (same(name, head.headers.at[i].name)) given = head.headers.at[i].value;
  smg_text *remove = smg_alloc(sizeof *remove);
  *remove = name;
  for (size_t i = 0; i < count; i++)
    if (same(given, tokens[i].name))
      return (smg_head_verdict){
          .what = SMG_CHANGE,
          .change = {.remove = {remove, 1}, .tenant = {1, tokens[i].value}, .principal = {1, SMG_TEXT("team")}}};
  return smg_head_refuse(401, SMG_TEXT("A token of your team is needed in x-team-token."));
}
