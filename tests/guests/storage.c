/* A plugin around the store, which does as `Keeper` of tests/core/middleware/test_storing.py does. */
#define SMG_STORAGE
#include "smg_plugin.h"

static bool has(smg_text text, smg_text word) {
  for (size_t i = 0; i + word.size <= text.size; i++) {
    size_t same = 0;
    while (same < word.size && text.at[i + same] == word.at[same]) same++;
    if (same == word.size) return true;
  }
  return false;
}

smg_storage_verdict before_storing(smg_storage_call call) {
  const smg_text word = SMG_TEXT("me at");
  smg_headers changed = {smg_alloc(sizeof(smg_header) * call.texts.size), 0};
  for (size_t i = 0; i < call.texts.size; i++) {
    smg_header each = call.texts.at[i];
    if (has(each.value, SMG_TEXT("never")))
      return (smg_storage_verdict){.what = SMG_REJECT, .reject = {403, SMG_TEXT("This is not kept.")}};
    if (has(each.value, SMG_TEXT("broken"))) __builtin_trap();
    if (has(each.value, SMG_TEXT("no json"))) each.value = SMG_TEXT("{");
    else if (has(each.value, SMG_TEXT("another"))) each.name = SMG_TEXT("other");
    else if (has(each.value, word)) {
      char *made = smg_alloc(each.value.size);
      for (size_t k = 0; k < each.value.size; k++) made[k] = each.value.at[k];
      for (size_t k = 0; k + word.size <= each.value.size; k++)
        if (has((smg_text){made + k, word.size}, word)) made[k] = 'M', made[k + 1] = 'E', made[k + 3] = 'A', made[k + 4] = 'T';
      each.value.at = made;
    } else continue;
    changed.at[changed.size++] = each;
  }
  return changed.size ? (smg_storage_verdict){.what = SMG_CHANGE, .change = changed} : (smg_storage_verdict){.what = SMG_PROCEED};
}

void after_storing(smg_storage_call call) {}
