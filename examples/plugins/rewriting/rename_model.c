/* Gives models other names: who asks for one gets another; see rename_model.py, which does the same. Configuration:
 * {"from": "gpt-4o", "to": "llama-3"}. Built by: smg-gateway plugin build rename_model.c */
#define SMG_SETUP
#define SMG_REQUEST_BODY
#include "smg_plugin.h"

static char kept[2][128];
static smg_text from, to;

static bool starts(smg_text text, size_t at, smg_text with) {
  if (at + with.size > text.size) return false;
  for (size_t i = 0; i < with.size; i++) if (text.at[at + i] != with.at[i]) return false;
  return true;
}

/* The string that is the value of a key on the outermost level of an object; its place in the text, which is JSON. */
static smg_text value_of(smg_text json, smg_text key) {
  int depth = 0;
  for (size_t i = 0; i < json.size; i++) {
    char c = json.at[i];
    if (c == '{' || c == '[') depth++;
    if (c == '}' || c == ']') depth--;
    if (c != '"') continue;
    size_t begin = i + 1, end = begin;
    while (end < json.size && json.at[end] != '"') end += json.at[end] == '\\' ? 2 : 1;
    if (end >= json.size) break;
    bool is_key = depth == 1 && end - begin == key.size && starts(json, begin, key);
    i = end;
    if (!is_key) continue;
    size_t at = end + 1;
    while (at < json.size && (json.at[at] == ' ' || json.at[at] == '\n' || json.at[at] == '\t' || json.at[at] == '\r')) at++;
    if (at >= json.size || json.at[at] != ':') continue;
    at++;
    while (at < json.size && (json.at[at] == ' ' || json.at[at] == '\n' || json.at[at] == '\t' || json.at[at] == '\r')) at++;
    if (at >= json.size || json.at[at] != '"') continue;
    size_t stop = at + 1;
    while (stop < json.size && json.at[stop] != '"') stop += json.at[stop] == '\\' ? 2 : 1;
    if (stop < json.size) return (smg_text){json.at + at + 1, stop - at - 1};
  }
  return (smg_text){0, 0};
}

static bool keep(smg_text config, smg_text key, char *where, smg_text *found) {
  smg_text value = value_of(config, key);
  if (!value.size || value.size > sizeof kept[0]) return false;
  for (size_t i = 0; i < value.size; i++) where[i] = value.at[i];
  *found = (smg_text){where, value.size};
  return true;
}

smg_text configure(smg_text config) {
  if (!keep(config, SMG_TEXT("from"), kept[0], &from)) return SMG_TEXT("from is missing: the name that is asked for");
  if (!keep(config, SMG_TEXT("to"), kept[1], &to)) return SMG_TEXT("to is missing: the name that it stands for");
  return (smg_text){0, 0};
}

smg_text_verdict on_request_body(smg_text body) {
  smg_text name = value_of(body, SMG_TEXT("model"));
  if (name.size != from.size || !starts(name, 0, from)) return smg_proceed();
  size_t before = (size_t)(name.at - body.at), size = 0;
  char *made = smg_alloc(body.size - name.size + to.size);
  for (size_t i = 0; i < before; i++) made[size++] = body.at[i];
  for (size_t i = 0; i < to.size; i++) made[size++] = to.at[i];
  for (size_t i = before + name.size; i < body.size; i++) made[size++] = body.at[i];
  return smg_replace((smg_text){made, size});
}
