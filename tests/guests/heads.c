/* A plugin that looks at the heads of requests alone: it sets a header, or lets them pass if it is told so. */
#define SMG_SETUP
#define SMG_REQUEST_HEAD
#include "smg_plugin.h"

static bool passes;

smg_text configure(smg_text config) { /* {"do": "pass"} */
  for (size_t i = 0; i + 4 <= config.size; i++)
    if (config.at[i] == 'p' && config.at[i + 1] == 'a' && config.at[i + 2] == 's' && config.at[i + 3] == 's') passes = true;
  return (smg_text){0, 0};
}

smg_head_verdict on_request_head(smg_request_head head) {
  static smg_header one = {{"x-guest", 7}, {"was here", 8}};
  if (passes) return smg_head_proceed();
  return (smg_head_verdict){.what = SMG_CHANGE, .change = {.set = {&one, 1}}};
}
