#include "base/log.h"
#include "cmd/server.h"

#define LOG_MOD "cmd"

int cmd_server_run(const struct job *job, const struct cl_spec *spec, uint32_t rank,
                   const struct server_params *p)
{
    char name[CL_NAME_MAX];

    log_error("%s cannot run: this build has neither ps nor worker", cl_name(spec, rank, name));
    return VB_EXIT_FAILED;
}
