"""A static program of 200 bytes that stands for hwclock: the agent calls it after each resume, once it has set the guest's clock.

`hwclock -w` has nothing to do, for the hardware clock of a machine is its host's, and must end at once: a shell that says so takes an
emulated guest a tenth of a second. Everything else is the script's beside it, which takes this program's place.
"""

from workers.guest.static_program import program

SCRIPT = b"/usr/lib/keepstate/hwclock\0"  # stands behind the code, which finds it relative to itself

X86_64 = """
488b442410        mov rax,QWORD PTR [rsp+0x10]
4885c0            test rax,rax
740b              je script
6681382d77        cmp WORD PTR [rax],0x772d
7504              jne script
31ff              xor edi,edi
eb21              jmp exit
                 script:
488d3d21000000    lea rdi,[rip+0x21]
488d742408        lea rsi,[rsp+0x8]
488b1424          mov rdx,QWORD PTR [rsp]
488d54d608        lea rdx,[rsi+rdx*8+0x8]
b83b000000        mov eax,0x3b
0f05              syscall
bf7f000000        mov edi,0x7f
                 exit:
b83c000000        mov eax,0x3c
0f05              syscall
"""

AARCH64 = """
e00b40f9  ldr x0, [sp, #16]
e00000b4  cbz x0, script
01004079  ldrh w1, [x0]
a2e58e52  mov w2, #0x772d
3f00026b  cmp w1, w2
61000054  b.ne script
000080d2  mov x0, #0x0
09000014  b exit
         script:
e20340f9  ldr x2, [sp]
e1230091  add x1, sp, #0x8
220c028b  add x2, x1, x2, lsl #3
42200091  add x2, x2, #0x8
c0000010  adr x0, path
a81b80d2  mov x8, #0xdd
010000d4  svc #0x0
e00f80d2  mov x0, #0x7f
         exit:
a80b80d2  mov x8, #0x5d
010000d4  svc #0x0
"""

LISTINGS = {"x86_64": X86_64, "aarch64": AARCH64}


def hwclock_program(architecture: str) -> bytes:
    """The program as an ELF file. Raises ImageError for an architecture that it was not written for."""
    return program("hwclock", architecture, LISTINGS, SCRIPT)
